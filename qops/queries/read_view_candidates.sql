-- Transactions that may hold a read view and so stop purge, oldest first: all at REPEATABLE READ, and any
-- whose consistent read is running now. Certain where no lock is held, because locking statements open no view.
-- MySQL 8.0 and later. Needs PROCESS. Served from a cache that is renewed only when nobody read it for 100 ms.
-- trx_started is in the server's system time zone whatever the session's zone is, hence CONVERT_TZ.
SELECT trx_mysql_thread_id AS connection_id,
       trx_isolation_level AS isolation_level,
       trx_lock_structs AS lock_structs,
       trx_autocommit_non_locking AS single_statement,
       trx_query AS statement_text,
       GREATEST(0, TIMESTAMPDIFF(SECOND, trx_started, CONVERT_TZ(NOW(), @@session.time_zone, 'SYSTEM'))) AS seconds
  FROM information_schema.innodb_trx
 WHERE trx_mysql_thread_id <> CONNECTION_ID()
   AND (trx_isolation_level = 'REPEATABLE READ'
        OR trx_isolation_level = 'READ COMMITTED' AND trx_state = 'RUNNING' AND trx_query IS NOT NULL
        OR trx_isolation_level = 'SERIALIZABLE' AND trx_lock_structs = 0 AND trx_query IS NOT NULL)
 ORDER BY trx_started
 LIMIT 200
