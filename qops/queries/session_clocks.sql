-- Statements on one table with the time of their session or UTC in them, and that session's time zone: its name, and
-- its seconds east of UTC today and half a year on. qops itself is left out by its connection attribute.
-- MySQL 8.0 and later: the instruments and consumers are on by default; ten statements of each session are kept.
-- Needs SELECT on the performance_schema tables below. Digests write CURRENT_TIMESTAMP and its synonyms as NOW.
SELECT t.processlist_id AS connection_id,
       CONCAT(t.processlist_user, '@', t.processlist_host) AS user,
       v.variable_value AS zone,
       TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', v.variable_value)) AS east,
       TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP() + INTERVAL 182 DAY,
         CONVERT_TZ(UTC_TIMESTAMP() + INTERVAL 182 DAY, '+00:00', v.variable_value)) AS east_later,
       h.digest_text AS statement_text
  FROM performance_schema.events_statements_history AS h
  JOIN performance_schema.threads AS t
    ON t.thread_id = h.thread_id
  JOIN performance_schema.variables_by_thread AS v
    ON v.thread_id = t.thread_id AND v.variable_name = 'time_zone'
 WHERE (h.current_schema = :schema
        AND (LOCATE(:quoted, REPLACE(h.digest_text, :foreign, '')) > 0
          OR LOCATE(:bare, REPLACE(CONCAT(h.digest_text, ' '), :foreignbare, '')) > 0)
     OR LOCATE(:qualified, h.digest_text) > 0)
   AND (LOCATE(' NOW ', CONCAT(h.digest_text, ' ')) > 0
     OR LOCATE(' SYSDATE ', h.digest_text) > 0
     OR LOCATE(' UTC_TIMESTAMP ', CONCAT(h.digest_text, ' ')) > 0)
   AND t.type = 'FOREGROUND'
   AND t.processlist_id <> CONNECTION_ID()
   AND NOT EXISTS (
       SELECT 1
         FROM performance_schema.session_connect_attrs AS a
        WHERE a.processlist_id = t.processlist_id
          AND a.attr_name = 'program_name'
          AND a.attr_value = 'qops')
 LIMIT 2000
