-- The columns of the foreign keys that refer to one table and would delete or change rows of theirs, one row a column.
-- MySQL 8.0 and later. Needs any privilege on the child tables; those of others are left out.
SELECT CONCAT(r.constraint_schema, '/', r.constraint_name) AS name,
       k.table_schema AS child_schema,
       k.table_name AS child_table,
       r.constraint_name AS constraint_name,
       k.column_name AS column_name,
       k.referenced_column_name AS referenced_name,
       r.update_rule AS update_rule
  FROM information_schema.referential_constraints AS r
  JOIN information_schema.key_column_usage AS k
    ON k.constraint_schema = r.constraint_schema
   AND k.constraint_name = r.constraint_name
   AND k.table_name = r.table_name
   AND k.referenced_column_name IS NOT NULL
 WHERE r.unique_constraint_schema = :schema
   AND r.referenced_table_name = :table
   AND r.delete_rule IN ('CASCADE', 'SET NULL', 'SET DEFAULT')
 ORDER BY name, k.ordinal_position
