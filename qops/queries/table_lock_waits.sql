-- How many sessions wait for row locks of a queue's two tables, and how long the longest statement has run.
-- MySQL 8.0 and later; before 8.0.40, 8.4.3 and 9.1.0 reading data_lock_waits can stall InnoDB, so qops does not.
-- Needs SELECT on the performance_schema tables below; empty where performance_schema is OFF.
-- Begins at the waits, which are few, and looks up their locks by key: the number of locks held does not matter.
-- timer_wait is in picoseconds and independent of time zones.
SELECT COUNT(DISTINCT w.thread_id) AS waiting,
       MAX(s.timer_wait) / 1e12 AS longest_seconds
  FROM (SELECT DISTINCT requesting_engine_lock_id AS lock_id, requesting_thread_id AS thread_id, engine
          FROM performance_schema.data_lock_waits
         LIMIT 1000) AS w
  JOIN performance_schema.data_locks AS l ON l.engine_lock_id = w.lock_id AND l.engine = w.engine
  LEFT JOIN performance_schema.events_statements_current AS s
    ON s.thread_id = w.thread_id AND s.end_event_id IS NULL AND s.nesting_event_level = 0
 WHERE l.object_schema = :schema
   AND l.object_name IN (:table, :archive)
