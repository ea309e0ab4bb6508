-- The columns of two tables (they may be the same), in order, as far as the account may see them (it needs any privilege on each).
-- MySQL 8.0 and later. Names are compared by equality; the aliases are there because 8.0 returns column
-- names of information_schema in upper case whatever the query says.
SELECT table_name = :table AS mine,
       table_name = :other AS others,
       column_name AS name,
       LOWER(data_type) AS data_type,
       CAST(column_type AS CHAR) AS column_type,
       is_nullable AS nullable,
       character_maximum_length AS length,
       datetime_precision AS `precision`,
       character_set_name AS charset,
       collation_name AS collation,
       UPPER(extra) AS extra,
       column_default IS NOT NULL OR extra LIKE '%auto_increment%' AS filled,
       CAST(generation_expression AS CHAR) AS expression
  FROM information_schema.columns
 WHERE table_schema = :schema
   AND table_name IN (:table, :other)
 ORDER BY ordinal_position
