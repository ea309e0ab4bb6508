-- The server's settings that doctor judges; one that a version does not have is not there. MySQL 8.0 and later; needs
-- nothing.
SHOW GLOBAL VARIABLES
 WHERE variable_name IN (
   'binlog_format', 'group_replication_single_primary_mode', 'innodb_deadlock_detect', 'innodb_lock_wait_timeout',
   'innodb_print_all_deadlocks', 'innodb_purge_threads', 'innodb_read_only', 'innodb_rollback_on_timeout',
   'lock_wait_timeout', 'log_bin', 'performance_schema', 'read_only', 'sql_mode', 'super_read_only',
   'transaction_isolation', 'wsrep_on')
