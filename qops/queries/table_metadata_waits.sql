-- How many sessions wait for the metadata lock of a queue's two tables, and how long the longest statement has run.
-- MySQL 8.0 and later: the instrument wait/lock/metadata/sql/mdl is on by default.
-- Needs SELECT on the performance_schema tables below; empty where performance_schema is OFF.
SELECT COUNT(DISTINCT l.owner_thread_id) AS waiting,
       MAX(s.timer_wait) / 1e12 AS longest_seconds
  FROM performance_schema.metadata_locks AS l
  LEFT JOIN performance_schema.events_statements_current AS s
    ON s.thread_id = l.owner_thread_id AND s.end_event_id IS NULL AND s.nesting_event_level = 0
 WHERE l.lock_status = 'PENDING'
   AND l.object_type = 'TABLE'
   AND l.object_schema = :schema
   AND l.object_name IN (:table, :archive)
