-- Whether InnoDB counts the transactions that wait for purge: `enabled`, the default, or `disabled`.
-- MySQL 8.0 and later. Needs PROCESS.
SELECT status AS status
  FROM information_schema.innodb_metrics
 WHERE name = 'trx_rseg_history_len'
