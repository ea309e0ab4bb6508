-- Who holds a metadata lock on one table, and since when: the transactions that DDL on it would wait for.
-- MySQL 8.0 and later: the instrument wait/lock/metadata/sql/mdl is on by default. Needs SELECT on the
-- performance_schema tables below. Seconds come from timers (picoseconds), so no time zone matters. A statement in
-- autocommit has no transaction that lasts; its own time counts then.
SELECT t.processlist_id AS connection_id,
       t.processlist_user AS user,
       t.processlist_host AS host,
       t.processlist_command AS command,
       ROUND(MAX(COALESCE(x.timer_wait, s.timer_wait, 0)) / 1e12, 1) AS seconds,
       MAX(LEFT(s.sql_text, 120)) AS statement
  FROM performance_schema.metadata_locks AS l
  JOIN performance_schema.threads AS t ON t.thread_id = l.owner_thread_id
  LEFT JOIN performance_schema.events_transactions_current AS x
    ON x.thread_id = l.owner_thread_id AND x.state = 'ACTIVE'
  LEFT JOIN performance_schema.events_statements_current AS s
    ON s.thread_id = l.owner_thread_id AND s.nesting_event_level = 0
 WHERE l.object_type = 'TABLE'
   AND l.object_schema = :schema
   AND l.object_name = :table
   AND l.lock_status = 'GRANTED'
   AND t.processlist_id <> CONNECTION_ID()
 GROUP BY t.processlist_id, t.processlist_user, t.processlist_host, t.processlist_command
 ORDER BY seconds DESC
 LIMIT 10
