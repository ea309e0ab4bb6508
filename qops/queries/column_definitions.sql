-- What else MODIFY COLUMN has to say again so that it is not lost: default, comment and attributes of each column.
-- MySQL 8.0 and later. Needs a privilege on each column. The default of an expression (DEFAULT_GENERATED) is the
-- server's rendering of it.
SELECT column_name AS name,
       column_default AS `default`,
       UPPER(extra) AS extra,
       column_comment AS comment
  FROM information_schema.columns
 WHERE table_schema = :schema
   AND table_name = :table
