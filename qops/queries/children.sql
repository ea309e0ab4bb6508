-- The foreign keys that refer to one table, from any schema: which table, and what a DELETE does there.
-- MySQL 8.0 and later. Needs PROCESS (else error 1227) and then sees every child. In `type`, bit 1 is ON DELETE
-- CASCADE and bit 2 is ON DELETE SET NULL; without either, a child row forbids the DELETE.
SELECT id AS name,
       for_name AS child,
       type & 1 AS cascades,
       (type & 2) >> 1 AS sets_null
  FROM information_schema.innodb_foreign
 WHERE ref_name = CONCAT(:schema, '/', :table)
 ORDER BY id
