-- Whether this account can be sure to see all triggers (1) of each of two tables: TRIGGER is looked for among its own
-- privileges on the server, the schema and the table; what it has through a role is told by own_grants.sql, if `roles`
-- says that some are active. Partial revokes make holes in the first two. MySQL 8.0.16 and later. Needs any privilege
-- on the tables. Reads the privileges of every account.
SELECT t.table_name AS name,
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
                     AND p.grantee = me.grantee) AS sure,
       CURRENT_ROLE() <> 'NONE' AS roles
  FROM (SELECT 1 AS place, :table AS name UNION ALL SELECT 2, :archive) AS w
  JOIN information_schema.tables AS t
    ON t.table_schema = :schema
   AND t.table_name = w.name
   AND CASE w.place WHEN 1 THEN t.table_name = :table ELSE t.table_name = :archive END
  JOIN (SELECT CONCAT("'", SUBSTRING_INDEX(CURRENT_USER(), '@', 1), "'@'", SUBSTRING_INDEX(CURRENT_USER(), '@', -1), "'")
            AS grantee) AS me
 ORDER BY t.table_name
