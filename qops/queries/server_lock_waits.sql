-- How many transactions of the whole server wait for row locks, for servers where data_lock_waits is better not read.
-- MySQL 8.0 and later. Needs PROCESS. trx_wait_started is in the server's system time zone, hence CONVERT_TZ.
SELECT COUNT(*) AS waiting,
       MAX(GREATEST(0, TIMESTAMPDIFF(SECOND, trx_wait_started, CONVERT_TZ(NOW(), @@session.time_zone, 'SYSTEM'))))
         AS longest_seconds
  FROM information_schema.innodb_trx
 WHERE trx_state = 'LOCK WAIT'
