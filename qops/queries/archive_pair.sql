-- What two tables are (type, engine), how many triggers act on them, and whether this account can be sure to see
-- those (1): TRIGGER is looked for among its own privileges on the server and the schema. MySQL 8.0 and later.
SELECT t.table_name AS name,
       t.table_type AS kind,
       t.engine AS engine,
       (SELECT COUNT(*)
          FROM information_schema.triggers AS g
         WHERE g.event_object_schema = t.table_schema
           AND g.event_object_table = t.table_name) AS triggers,
       EXISTS (SELECT 1
                 FROM information_schema.user_privileges AS p
                WHERE p.privilege_type = 'TRIGGER'
                  AND p.grantee = me.grantee)
       OR EXISTS (SELECT 1
                    FROM information_schema.schema_privileges AS p
                   WHERE p.privilege_type = 'TRIGGER'
                     AND REPLACE(p.table_schema, '\\', '') = :schema
                     AND p.grantee = me.grantee) AS sees_triggers
  FROM information_schema.tables AS t
  JOIN (SELECT CONCAT("'", SUBSTRING_INDEX(CURRENT_USER(), '@', 1), "'@'", SUBSTRING_INDEX(CURRENT_USER(), '@', -1), "'")
            AS grantee) AS me
 WHERE t.table_schema = :schema
   AND t.table_name IN (:table, :archive)
