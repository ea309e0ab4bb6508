-- Whether metadata locks are recorded (YES by default). MySQL 8.0 and later.
-- Needs SELECT on performance_schema.setup_instruments; no row where performance_schema is OFF.
SELECT enabled AS enabled
  FROM performance_schema.setup_instruments
 WHERE name = 'wait/lock/metadata/sql/mdl'
