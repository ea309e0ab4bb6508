-- How often lock waits ended in a timeout (1205) or a deadlock (1213) on this server, whatever the table, since the first
-- one after its start or after the summary was truncated. MySQL 8.0 and later: on by default.
-- Needs SELECT on performance_schema.events_errors_summary_global_by_error.
SELECT error_number AS code,
       sum_error_raised AS raised,
       TIMESTAMPDIFF(SECOND, first_seen, NOW()) AS first_seconds,
       TIMESTAMPDIFF(SECOND, last_seen, NOW()) AS last_seconds,
       CONCAT(first_seen, ' UTC') AS first_seen,
       CONCAT(last_seen, ' UTC') AS last_seen
  FROM performance_schema.events_errors_summary_global_by_error
 WHERE error_number IN (1205, 1213)
   AND sum_error_raised > 0
