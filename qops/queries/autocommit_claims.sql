-- Sessions that lately read rows of one table FOR UPDATE in autocommit, so that the locks were gone with the answer.
-- Sessions of qops are left out by their connection attribute.
-- MySQL 8.0.2 and later: the instrument and consumers are on by default; ten statements of each session are kept.
-- Needs SELECT on the performance_schema tables below. A statement in autocommit is a transaction nested in it.
-- Digests quote names in backticks (see unreserved_word) and show no value; what a session has prepared begins with EXECUTE.
SELECT t.processlist_id AS connection_id,
       CONCAT(t.processlist_user, '@', t.processlist_host) AS user,
       MAX(h.digest_text) AS statement_text
  FROM performance_schema.events_statements_history AS h
  JOIN performance_schema.threads AS t
    ON t.thread_id = h.thread_id
  JOIN performance_schema.events_transactions_history AS x
    ON x.thread_id = h.thread_id AND x.nesting_event_id = h.event_id
 WHERE x.autocommit = 'YES'
   AND (h.current_schema = :schema
        AND (LOCATE(:quoted, REPLACE(h.digest_text, :foreign, '')) > 0
          OR LOCATE(:bare, REPLACE(CONCAT(h.digest_text, ' '), :foreignbare, '')) > 0)
     OR LOCATE(:qualified, h.digest_text) > 0)
   AND (h.digest_text LIKE 'SELECT %FOR UPDATE%' OR h.digest_text LIKE 'EXECUTE SELECT %FOR UPDATE%')
   AND t.type = 'FOREGROUND'
   AND t.processlist_id <> CONNECTION_ID()
   AND NOT EXISTS (
       SELECT 1
         FROM performance_schema.session_connect_attrs AS a
        WHERE a.processlist_id = t.processlist_id
          AND a.attr_name = 'program_name'
          AND a.attr_value = 'qops')
 GROUP BY t.processlist_id, t.processlist_user, t.processlist_host
 LIMIT 200
