-- The statement that turns the counting of errors on; no row: they are counted (the default). MySQL 8.0 and later.
-- Needs SELECT on performance_schema.setup_instruments.
SELECT CONCAT('UPDATE performance_schema.setup_instruments SET enabled = ''YES'' WHERE name = ''', name, ''';') AS remedy
  FROM performance_schema.setup_instruments
 WHERE name = 'error'
   AND enabled = 'NO'
