"""The archiver: finished rows move to the archive table in small transactions, each of them counted."""
