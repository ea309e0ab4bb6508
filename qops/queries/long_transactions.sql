-- Transactions that are open for a time or longer, oldest first. MySQL 8.0 and later. Needs PROCESS.
-- trx_started is in the server's system time zone whatever the session's zone is, hence CONVERT_TZ.
SELECT connection_id, seconds, isolation_level, rows_locked, rows_modified, statement_text
  FROM (SELECT trx_mysql_thread_id AS connection_id,
               TIMESTAMPDIFF(SECOND, trx_started, CONVERT_TZ(NOW(), @@session.time_zone, 'SYSTEM')) AS seconds,
               trx_isolation_level AS isolation_level,
               trx_rows_locked AS rows_locked,
               trx_rows_modified AS rows_modified,
               trx_query AS statement_text
          FROM information_schema.innodb_trx
         WHERE trx_mysql_thread_id <> CONNECTION_ID()) AS transactions
 WHERE seconds >= :seconds
 ORDER BY seconds DESC
 LIMIT 20
