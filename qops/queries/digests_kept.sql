-- What is off of that by which the server sums up statements, and the statement that turns it on; no row: it sums them
-- up (the default). A summary that is full counts all others in one row without a digest; only a recent one is told.
-- MySQL 8.0 and later. Needs SELECT on the tables below.
SELECT 'off' AS trouble,
       CONCAT('UPDATE performance_schema.setup_consumers SET enabled = ''YES'' WHERE name = ''', name, ''';') AS remedy
  FROM performance_schema.setup_consumers
 WHERE enabled = 'NO'
   AND name IN ('global_instrumentation', 'thread_instrumentation', 'statements_digest')
UNION ALL
SELECT 'off' AS trouble,
       CONCAT('UPDATE performance_schema.setup_instruments SET enabled = ''YES'', timed = ''YES'' WHERE name = ''',
         name, ''';') AS remedy
  FROM performance_schema.setup_instruments
 WHERE enabled = 'NO'
   AND name IN ('statement/sql/select', 'statement/sql/update', 'statement/sql/delete')
UNION ALL
SELECT 'off' AS trouble,
       CONCAT('-- in the server''s option file: ', variable_name, ' = ',
         IF(variable_name = 'performance_schema_digests_size', '-1', '1024'), ', and a restart') AS remedy
  FROM performance_schema.global_variables
 WHERE variable_value = '0'
   AND variable_name IN ('max_digest_length', 'performance_schema_max_digest_length',
         'performance_schema_digests_size')
UNION ALL
SELECT 'full' AS trouble,
       'TRUNCATE TABLE performance_schema.events_statements_summary_by_digest;' AS remedy
  FROM performance_schema.events_statements_summary_by_digest
 WHERE digest IS NULL
   AND count_star > 0
   AND last_seen >= NOW(6) - INTERVAL 1 HOUR
