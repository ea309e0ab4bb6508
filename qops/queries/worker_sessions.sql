-- Sessions that ran a statement on one table lately or hold a lock on it, and their isolation level: that of the last
-- transaction, else the session's. qops itself is left out by its connection attribute.
-- MySQL 8.0 and later: the instruments and consumers are on by default. Needs SELECT on the performance_schema tables
-- below; all users' sessions are there. Digests quote every name in backticks, so a table is found by its quoted name
-- (some names stand there without quotes, see unreserved_word); one of the same name in another schema is not it.
SELECT w.processlist_id AS connection_id,
       w.user AS user,
       v.variable_value AS session_isolation,
       x.isolation_level AS transaction_isolation
  FROM (SELECT t.thread_id, t.processlist_id, CONCAT(t.processlist_user, '@', t.processlist_host) AS user
          FROM performance_schema.threads AS t
         WHERE t.processlist_id <> CONNECTION_ID()
           AND t.type = 'FOREGROUND'
           AND NOT EXISTS (
               SELECT 1
                 FROM performance_schema.session_connect_attrs AS a
                WHERE a.processlist_id = t.processlist_id
                  AND a.attr_name = 'program_name'
                  AND a.attr_value = 'qops')
           AND (EXISTS (
                SELECT 1
                  FROM performance_schema.events_statements_history AS h
                 WHERE h.thread_id = t.thread_id
                   AND (h.current_schema = :schema
                        AND (LOCATE(:quoted, REPLACE(h.digest_text, :foreign, '')) > 0
                          OR LOCATE(:bare, REPLACE(CONCAT(h.digest_text, ' '), :foreignbare, '')) > 0)
                     OR LOCATE(:qualified, h.digest_text) > 0))
             OR EXISTS (
                SELECT 1
                  FROM performance_schema.events_statements_current AS c
                 WHERE c.thread_id = t.thread_id
                   AND (c.current_schema = :schema
                        AND (LOCATE(:quoted, REPLACE(c.digest_text, :foreign, '')) > 0
                          OR LOCATE(:bare, REPLACE(CONCAT(c.digest_text, ' '), :foreignbare, '')) > 0)
                     OR LOCATE(:qualified, c.digest_text) > 0))
             OR EXISTS (
                SELECT 1
                  FROM performance_schema.metadata_locks AS l
                 WHERE l.owner_thread_id = t.thread_id
                   AND l.object_type = 'TABLE'
                   AND l.object_schema = :schema
                   AND l.object_name = :table))
         LIMIT 200) AS w
  LEFT JOIN performance_schema.variables_by_thread AS v
    ON v.thread_id = w.thread_id AND v.variable_name = 'transaction_isolation'
  LEFT JOIN performance_schema.events_transactions_current AS x ON x.thread_id = w.thread_id
