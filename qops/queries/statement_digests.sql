-- What was sent to one table within the last hour: each statement without its values, and its sums since FIRST_SEEN,
-- which are those since the server started or the summary was truncated. Rows examined include those that were sorted.
-- MySQL 8.0 and later: on by default. Needs SELECT on performance_schema.events_statements_summary_by_digest.
-- Of a long statement the server keeps the first `kept_bytes` of its inner form, without a mark of it.
-- Digests quote names in backticks (see unreserved_word); only statements sent from sessions in this schema are there.
SELECT d.digest_text AS statement_text,
       LEAST(@@GLOBAL.max_digest_length, @@GLOBAL.performance_schema_max_digest_length) AS kept_bytes,
       d.count_star AS executions,
       d.sum_errors AS errors,
       d.sum_rows_sent AS sent,
       d.sum_rows_affected AS affected,
       d.sum_rows_examined AS examined,
       d.sum_sort_scan + d.sum_sort_range AS sorts,
       CONCAT(LEFT(d.first_seen, 19), ' UTC') AS first_seen,
       CONCAT(LEFT(d.last_seen, 19), ' UTC') AS last_seen
  FROM performance_schema.events_statements_summary_by_digest AS d
 WHERE d.schema_name = :schema
   AND d.last_seen >= NOW(6) - INTERVAL 1 HOUR
   AND (LOCATE(:quoted, d.digest_text) > 0 OR LOCATE(:bare, CONCAT(d.digest_text, ' ')) > 0)
   AND d.digest_text NOT LIKE 'EXPLAIN %'
   AND d.digest_text NOT LIKE 'INSERT %'
   AND d.digest_text NOT LIKE 'PREPARE %'
 ORDER BY d.last_seen DESC
 LIMIT 1000
