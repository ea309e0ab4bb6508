-- The same for an account without PROCESS: only children on which it has SELECT or REFERENCES are listed, so that
-- no row means "none" only for an account that has SELECT on everything (the second query's one row).
-- MySQL 8.0 and later.
SELECT CONCAT(constraint_schema, '/', constraint_name) AS name,
       CONCAT(constraint_schema, '/', table_name) AS child,
       delete_rule = 'CASCADE' AS cascades,
       delete_rule IN ('SET NULL', 'SET DEFAULT') AS sets_null
  FROM information_schema.referential_constraints
 WHERE unique_constraint_schema = :schema
   AND referenced_table_name = :table
 ORDER BY 1
