-- The connection that a transaction belongs to, by its lock on a table, which none but itself takes and it takes first.
-- MySQL 8.0 and later; see row_blocker.sql. Needs SELECT on performance_schema.threads and data_locks.
-- By an index; ends at the first lock, so that a transaction with 200,000 row locks costs what any other does. NULL for
-- a transaction without a connection (XA PREPARE).
SELECT STRAIGHT_JOIN owner.processlist_id AS connection_id
  FROM performance_schema.data_locks AS held
  LEFT JOIN performance_schema.threads AS owner ON owner.thread_id = held.thread_id
 WHERE held.engine_transaction_id = :transaction
   AND held.lock_type = 'TABLE'
 LIMIT 1
