-- What two tables are (type, engine), the triggers that act on them, as JSON: [[name, timing, event, body], …] or NULL,
-- and whether this account can be sure to see all of those (1): TRIGGER is looked for among its own privileges on the
-- server, the schema and the table; what it has through a role is not, and partial revokes make holes in the first two.
-- MySQL 8.0.16 and later. Needs any privilege on the tables.
SELECT t.table_name AS name,
       t.table_type AS kind,
       t.engine AS engine,
       (SELECT JSON_ARRAYAGG(JSON_ARRAY(g.trigger_name, g.action_timing, g.event_manipulation, g.action_statement))
          FROM information_schema.triggers AS g
         WHERE g.event_object_schema = t.table_schema
           AND g.event_object_table = t.table_name) AS triggers,
       (@@partial_revokes = 0
        AND EXISTS (SELECT 1
                      FROM information_schema.user_privileges AS p
                     WHERE p.privilege_type = 'TRIGGER'
                       AND p.grantee = me.grantee))
       OR (@@partial_revokes = 0
           AND EXISTS (SELECT 1
                         FROM information_schema.schema_privileges AS p
                        WHERE p.privilege_type = 'TRIGGER'
                          AND :schema LIKE p.table_schema
                          AND p.grantee = me.grantee))
       OR EXISTS (SELECT 1
                    FROM information_schema.table_privileges AS p
                   WHERE p.privilege_type = 'TRIGGER'
                     AND p.table_schema = t.table_schema
                     AND p.table_name = t.table_name
                     AND p.grantee = me.grantee) AS sees_triggers
  FROM information_schema.tables AS t
  JOIN (SELECT CONCAT("'", SUBSTRING_INDEX(CURRENT_USER(), '@', 1), "'@'", SUBSTRING_INDEX(CURRENT_USER(), '@', -1), "'")
            AS grantee) AS me
 WHERE t.table_schema = :schema
   AND t.table_name IN (:table, :archive)
 ORDER BY t.table_name
