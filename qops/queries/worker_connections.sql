-- Connections that are probably a worker's, by the name that it claims under: a session says it in a connection
-- attribute (qops' own workers: qops_worker), has run an UPDATE with the quoted name lately (a SELECT may be anybody's
-- who looks for it), or comes from the host and the process that the name consists of. qops' other sessions are left out.
-- MySQL 8.0 and later. Needs SELECT on the performance_schema tables below; empty where performance_schema is OFF. Reads
-- the sessions there are, their attributes and last statements, never the queue. :worker is compared byte by byte.
SELECT /*+ MAX_EXECUTION_TIME(5000) */ t.processlist_id AS connection_id
  FROM performance_schema.threads AS t
 WHERE t.type = 'FOREGROUND'
   AND t.processlist_id <> CONNECTION_ID()
   AND (EXISTS (
        SELECT 1
          FROM performance_schema.session_connect_attrs AS a
         WHERE a.processlist_id = t.processlist_id
           AND a.attr_name IN ('qops_worker', 'program_name')
           AND CAST(a.attr_value AS BINARY) = CAST(:worker AS BINARY))
     OR NOT EXISTS (
        SELECT 1
          FROM performance_schema.session_connect_attrs AS a
         WHERE a.processlist_id = t.processlist_id
           AND a.attr_name = 'program_name'
           AND a.attr_value = 'qops')
    AND (EXISTS (
         SELECT 1
           FROM performance_schema.events_statements_current AS c
          WHERE c.thread_id = t.thread_id
            AND c.event_name = 'statement/sql/update'
            AND c.current_schema = :schema
            AND LOCATE(CAST(:quoted AS BINARY), CAST(c.sql_text AS BINARY)) > 0)
      OR EXISTS (
         SELECT 1
           FROM performance_schema.events_statements_history AS h
          WHERE h.thread_id = t.thread_id
            AND h.event_name = 'statement/sql/update'
            AND h.current_schema = :schema
            AND LOCATE(CAST(:quoted AS BINARY), CAST(h.sql_text AS BINARY)) > 0)
      OR EXISTS (
         SELECT 1
           FROM performance_schema.session_connect_attrs AS a
          WHERE a.processlist_id = t.processlist_id
            AND a.attr_name = '_pid'
            AND REGEXP_LIKE(:worker, CONCAT('(^|[^0-9])', CAST(a.attr_value AS UNSIGNED), '([^0-9]|$)'))
            AND t.processlist_host <> ''
            AND LOCATE(SUBSTRING_INDEX(t.processlist_host, '.', 1), :worker) > 0)))
 ORDER BY t.processlist_id
 LIMIT 100
