-- The columns of one table that foreign keys rest on, in lower case: of its own ones and of those that refer to it.
-- MySQL 8.0 and later. Needs any privilege on the table; of children that the account may not see nothing is said.
SELECT LOWER(k.column_name) AS name
  FROM information_schema.key_column_usage AS k
 WHERE k.table_schema = :schema
   AND k.table_name = :table
   AND k.referenced_table_name IS NOT NULL
UNION
SELECT LOWER(k.referenced_column_name)
  FROM information_schema.key_column_usage AS k
 WHERE k.referenced_table_schema = :schema
   AND k.referenced_table_name = :table
