-- The server's settings that doctor judges; one that a version does not have is not there. MySQL 8.0 and later; needs
-- nothing.
SHOW GLOBAL VARIABLES
 WHERE variable_name IN (
   'binlog_format', 'innodb_print_all_deadlocks', 'innodb_read_only', 'log_bin', 'performance_schema', 'read_only',
   'sql_mode', 'super_read_only', 'transaction_isolation')
