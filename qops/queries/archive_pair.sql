-- What two tables are (type, engine, bytes of an average row by InnoDB's estimate), and the
-- triggers that act on them, as JSON: [[name, timing, event, body], …] or NULL; with each the session's isolation level,
-- because this is asked at the head of every transaction that moves jobs.
-- The names are joined to, because `table_name IN (…)` makes the server look at every table of the schema.
-- MySQL 8.0 and later. Needs any privilege on the tables; sees the triggers of those it has TRIGGER on.
SELECT @@transaction_isolation AS isolation,
       t.table_name AS name,
       t.table_type AS kind,
       t.engine AS engine,
       t.avg_row_length AS row_bytes,
       (SELECT JSON_ARRAYAGG(JSON_ARRAY(g.trigger_name, g.action_timing, g.event_manipulation, g.action_statement))
          FROM information_schema.triggers AS g
         WHERE g.event_object_schema = t.table_schema
           AND g.event_object_table = t.table_name) AS triggers
  FROM (SELECT 1 AS place, :table AS name UNION ALL SELECT 2, :archive) AS w
  JOIN information_schema.tables AS t
    ON t.table_schema = :schema
   AND t.table_name = w.name
   AND CASE w.place WHEN 1 THEN t.table_name = :table ELSE t.table_name = :archive END
 ORDER BY t.table_name
