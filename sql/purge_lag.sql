-- How far is purge behind, and who holds it up?
--
-- MySQL 8.0 and later. Needs PROCESS, and for the last query SELECT on performance_schema.
-- Reads no table of the application and opens no read view.

-- 1. The numbers. In the report that this prints (`mysql --batch --raw` keeps its lines), look for
--
--      Trx id counter 42055
--      Purge done for trx's n:o < 2005 undo n:o < 0 state: running
--      History list length 20002
--      1 read views open inside InnoDB
--
--    Transactions that purge has not reached = the smaller of the history list length and half of
--    (counter - purge done): here min(20002, (42055 - 2005) / 2) = 20002.
--    The history list length alone is no alarm: it is truncated lazily and can stand at thousands on an idle
--    server whose purge has caught up (then the counter is 1 to 3 ahead).
--    With 0 read views nobody stops purge, and it will catch up by itself.
SHOW ENGINE INNODB STATUS;

-- 2. Who may hold a read view, oldest first. Certain where lock_structs is 0.
--
--    +---------------+-----------------+--------------+------------------+----------------+---------+
--    | connection_id | isolation_level | lock_structs | single_statement | statement_text | seconds |
--    +---------------+-----------------+--------------+------------------+----------------+---------+
--    |          4711 | REPEATABLE READ |            0 |                0 | NULL           |    5423 |
--    +---------------+-----------------+--------------+------------------+----------------+---------+
--
--    It ends with the transaction (with the statement, where single_statement is 1): ask its owner, or KILL 4711. Error 3854 means that some transaction is just
--    running a statement with a character beyond U+FFFF, which this list cannot hold: run it again.
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
 LIMIT 200;

-- 3. Who that is, and what it ran last (put the connection ids in).
--
--    +---------------+-----------------+------------------------------+
--    | connection_id | user            | statement_text               |
--    +---------------+-----------------+------------------------------+
--    |          4711 | report@10.0.0.7 | SELECT COUNT(*) FROM jobs    |
--    +---------------+-----------------+------------------------------+
SELECT t.processlist_id AS connection_id,
       CONCAT(t.processlist_user, '@', t.processlist_host) AS user,
       s.sql_text AS statement_text
  FROM performance_schema.threads AS t
  LEFT JOIN performance_schema.events_statements_current AS s
    ON s.thread_id = t.thread_id AND s.nesting_event_level = 0
 WHERE t.processlist_id IN (4711);
