-- The transaction that holds the row for which one connection waits: a lock that is granted, not one of a fellow waiter.
-- MySQL 8.0 and later; before 8.0.40, 8.4.3 and 9.1.0 reading data_lock_waits can stall InnoDB, so qops does not.
-- Needs SELECT on performance_schema.threads, data_lock_waits and data_locks; empty where performance_schema is OFF.
-- Begins at the one waiter, each table by an index: the number of locks that anybody holds does not matter. The lock's
-- own thread is not asked for: a row that is only inserted gets its lock from whoever first waits for it.
SELECT STRAIGHT_JOIN DISTINCT held.engine_transaction_id AS transaction_id
  FROM performance_schema.threads AS waiter
  JOIN performance_schema.data_lock_waits AS wait ON wait.requesting_thread_id = waiter.thread_id
  JOIN performance_schema.data_locks AS held
    ON held.engine_lock_id = wait.blocking_engine_lock_id AND held.engine = wait.engine
 WHERE waiter.processlist_id = :waiter
   AND held.lock_status = 'GRANTED'
 ORDER BY transaction_id
 LIMIT 1
