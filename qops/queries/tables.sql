-- What a table is: its name as stored (lower_case_table_names), engine, and whether it is a table at all.
-- MySQL 8.0 and later. Needs any privilege on the table; without one there is no row.
SELECT table_name AS name,
       engine AS engine,
       table_type AS type
  FROM information_schema.tables
 WHERE table_schema = :schema
   AND table_name = :table
