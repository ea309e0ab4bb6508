-- The B-tree indexes of two tables (they may be the same), one row a key part, in order. MySQL 8.0 and later (is_visible, collation A/D).
-- Needs any privilege on the table. A part of a functional index has no column name.
SELECT table_name = :table AS mine,
       table_name = :other AS others,
       index_name AS name,
       non_unique AS non_unique,
       is_visible AS visible,
       column_name AS column_name,
       collation AS direction,
       sub_part AS prefix
  FROM information_schema.statistics
 WHERE table_schema = :schema
   AND table_name IN (:table, :other)
   AND index_type = 'BTREE'
 ORDER BY index_name, seq_in_index
