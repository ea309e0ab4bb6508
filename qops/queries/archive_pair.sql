-- What two tables are (type, engine, bytes of an average row, which the server may have cached for a day), and the
-- triggers that act on them, as JSON: [[name, timing, event, body], …] or NULL.
-- MySQL 8.0 and later. Needs any privilege on the tables; sees the triggers of those it has TRIGGER on.
SELECT t.table_name AS name,
       t.table_type AS kind,
       t.engine AS engine,
       t.avg_row_length AS row_bytes,
       (SELECT JSON_ARRAYAGG(JSON_ARRAY(g.trigger_name, g.action_timing, g.event_manipulation, g.action_statement))
          FROM information_schema.triggers AS g
         WHERE g.event_object_schema = t.table_schema
           AND g.event_object_table = t.table_name) AS triggers
  FROM information_schema.tables AS t
 WHERE t.table_schema = :schema
   AND t.table_name IN (:table, :archive)
 ORDER BY t.table_name
