-- Every connection, for accounts that may not read performance_schema or servers where it is OFF.
-- MySQL 8.0 and later. Without PROCESS only the account's own connections are there. Time is in seconds.
SHOW FULL PROCESSLIST
