-- Open transactions as the statement layer knows them, oldest first; without InnoDB's knowledge of locks.
-- For when information_schema.innodb_trx cannot be read: on 9.7.4 it fails as a whole (3854) while any transaction
-- runs a statement with a character outside the Basic Multilingual Plane, whoever reads it.
-- MySQL 8.0 and later: the instrument `transaction` and its consumer are on by default. Needs SELECT on the
-- performance_schema tables below; empty where performance_schema is OFF. timer_wait is in picoseconds.
SELECT t.processlist_id AS connection_id,
       x.isolation_level AS isolation_level,
       x.timer_wait / 1e12 AS seconds,
       s.sql_text AS statement_text,
       s.end_event_id IS NULL AS running
  FROM performance_schema.events_transactions_current AS x
  JOIN performance_schema.threads AS t ON t.thread_id = x.thread_id
  LEFT JOIN performance_schema.events_statements_current AS s
    ON s.thread_id = x.thread_id AND s.nesting_event_level = 0
 WHERE x.state = 'ACTIVE'
   AND t.processlist_id <> CONNECTION_ID()
 ORDER BY x.timer_wait DESC
 LIMIT 200
