-- Whose lock waits ended in a timeout (1205) or a deadlock (1213) within the last hour, the most frequent first.
-- MySQL 8.0 and later: on by default. Needs SELECT on the two tables. The summary has a row for each account and error,
-- so it is read by its key.
SELECT CONCAT(a.user, '@', a.host) AS account,
       e.error_number AS code,
       e.sum_error_raised AS raised
  FROM (SELECT user, host FROM performance_schema.accounts WHERE user IS NOT NULL LIMIT 1000) AS a
  JOIN performance_schema.events_errors_summary_by_account_by_error AS e
    ON e.user = a.user AND e.host = a.host AND e.error_number IN (1205, 1213)
 WHERE e.sum_error_raised > 0
   AND e.last_seen >= NOW() - INTERVAL 1 HOUR
 ORDER BY e.sum_error_raised DESC
 LIMIT 5
