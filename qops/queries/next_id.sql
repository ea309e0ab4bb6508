-- The value that a table's AUTO_INCREMENT column gives next, NULL where it has none.
-- MySQL 8.0 and later. Needs any privilege on the table. The session must have information_schema_stats_expiry = 0:
-- otherwise the number is that of a cache that is up to a day old.
SELECT auto_increment AS next_id
  FROM information_schema.tables
 WHERE table_schema = :schema
   AND table_name = :table
