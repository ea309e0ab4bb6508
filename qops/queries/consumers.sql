-- Whether the server keeps the last statements of each session (YES by default). MySQL 8.0 and later.
-- Needs SELECT on performance_schema.setup_consumers.
SELECT enabled AS enabled
  FROM performance_schema.setup_consumers
 WHERE name = 'events_statements_history'
