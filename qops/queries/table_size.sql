-- Bytes of a table's rows, of its secondary indexes, and free inside its file, as InnoDB has them now.
-- MySQL 8.0 and later. Needs any privilege on the table. The session must have information_schema_stats_expiry = 0:
-- otherwise the numbers are those of a cache that is up to a day old.
SELECT data_length AS table_bytes,
       index_length AS index_bytes,
       data_free AS free_bytes
  FROM information_schema.tables
 WHERE table_schema = :schema
   AND table_name = :table
