-- The columns of two tables (`place` 1 and 2; they may be the same), in order, as far as the account may see them (it
-- needs any privilege on each). MySQL 8.0 and later. The names are joined to, because `table_name IN (…)` makes the
-- server look at every table of the schema, and compared again as the server compares names. The aliases are there
-- because 8.0 returns column names of information_schema in upper case whatever the query says.
SELECT w.place AS place,
       c.column_name AS name,
       LOWER(c.data_type) AS data_type,
       CAST(c.column_type AS CHAR) AS column_type,
       c.is_nullable AS nullable,
       c.character_maximum_length AS length,
       c.datetime_precision AS `precision`,
       c.character_set_name AS charset,
       c.collation_name AS collation,
       UPPER(c.extra) AS extra,
       c.column_default IS NOT NULL OR c.extra LIKE '%auto_increment%' AS filled,
       CAST(c.generation_expression AS CHAR) AS expression
  FROM (SELECT 1 AS place, :table AS name UNION ALL SELECT 2, :other) AS w
  JOIN information_schema.columns AS c
    ON c.table_schema = :schema
   AND c.table_name = w.name
   AND CASE w.place WHEN 1 THEN c.table_name = :table ELSE c.table_name = :other END
 ORDER BY w.place, c.ordinal_position
