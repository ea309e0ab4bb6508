-- The B-tree indexes of two tables (`place` 1 and 2; they may be the same), one row a key part, in order. MySQL 8.0 and
-- later (is_visible, collation A/D). Needs any privilege on the tables. A part of a functional index has no column name.
-- The names are joined to, because `table_name IN (…)` makes the server look at every table of the schema.
SELECT w.place AS place,
       c.index_name AS name,
       c.non_unique AS non_unique,
       c.is_visible AS visible,
       c.column_name AS column_name,
       c.collation AS direction,
       c.sub_part AS prefix
  FROM (SELECT 1 AS place, :table AS name UNION ALL SELECT 2, :other) AS w
  JOIN information_schema.statistics AS c
    ON c.table_schema = :schema
   AND c.table_name = w.name
   AND CASE w.place WHEN 1 THEN c.table_name = :table ELSE c.table_name = :other END
 WHERE c.index_type = 'BTREE'
 ORDER BY w.place, c.index_name, c.seq_in_index
