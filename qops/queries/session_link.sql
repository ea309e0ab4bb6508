-- From where the server sees this session come, as user@host. MySQL 8.0 and later; needs nothing.
SELECT USER() AS seen
