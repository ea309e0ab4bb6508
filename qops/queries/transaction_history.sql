-- What is off of that by which the last transactions of each session are kept, and the statement that turns it on;
-- no row: they are kept (the default). MySQL 8.0.2 and later. Needs SELECT on the two tables.
SELECT 'UPDATE performance_schema.setup_instruments SET enabled = ''YES'' WHERE name = ''transaction'';' AS remedy
  FROM performance_schema.setup_instruments
 WHERE name = 'transaction' AND enabled = 'NO'
UNION ALL
SELECT CONCAT('UPDATE performance_schema.setup_consumers SET enabled = ''YES'' WHERE name = ''', name, ''';') AS remedy
  FROM performance_schema.setup_consumers
 WHERE enabled = 'NO'
   AND name IN ('events_statements_history', 'events_transactions_current', 'events_transactions_history',
                'global_instrumentation', 'thread_instrumentation', 'statements_digest')
