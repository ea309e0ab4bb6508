-- The average length of a table's rows in bytes, as the server's statistics have it (they may be a day old).
-- MySQL 8.0 and later; needs any privilege on the table.
SELECT avg_row_length AS bytes
  FROM information_schema.tables
 WHERE table_schema = :schema
   AND table_name = :table
