-- InnoDB's own report: transaction counter, purge position, history list length and number of read views.
-- MySQL 8.0 and later. Needs PROCESS. Reads no table and opens no read view.
SHOW ENGINE INNODB STATUS
