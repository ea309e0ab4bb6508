-- Who some connections are and what they run or ran last; by index, so cheap with thousands of connections.
-- MySQL 8.0 and later. Needs SELECT on performance_schema.threads and performance_schema.events_statements_current.
-- Empty where performance_schema is OFF. timer_wait is in picoseconds and independent of time zones.
SELECT t.processlist_id AS connection_id,
       CONCAT(t.processlist_user, '@', t.processlist_host) AS user,
       s.sql_text AS statement_text,
       CASE WHEN s.end_event_id IS NULL THEN s.timer_wait / 1e12 END AS running_seconds
  FROM performance_schema.threads AS t
  LEFT JOIN performance_schema.events_statements_current AS s
    ON s.thread_id = t.thread_id AND s.nesting_event_level = 0
 WHERE t.processlist_id IN :ids
