-- Since when the server is up, never later than it really is: its uptime is counted in whole seconds. Long ago where
-- that cannot be read. MySQL 8.0 and later; needs nothing.
SELECT UTC_TIMESTAMP(6) - INTERVAL COALESCE(MAX(variable_value), 1000000000) + 1 SECOND AS up_since
  FROM performance_schema.global_status
 WHERE variable_name = 'Uptime'
