-- Claim the next job.
--
-- MySQL 8.0 and later (SKIP LOCKED). Needs SELECT and UPDATE on the table. This is what the Worker class sends; with
-- a driver, leave the INTO out and read the row, and give the values that are user variables here as parameters.
--
-- What matters:
--   an explicit transaction: in autocommit the row is unlocked before the UPDATE, and two workers get the same job;
--   READ COMMITTED: at REPEATABLE READ a claim also locks the gap in which the next job is about to be inserted;
--   SKIP LOCKED: without it all workers wait for the same first row;
--   the order of claim_idx: with a sort every pending job is locked, and other workers are handed nothing. That is
--   why the index is named: left to itself the optimizer sorts a small table, up to some thousand rows;
--   the server's clock, for the lease too: never send a time that your own machine read;
--   nothing else in the transaction: the work begins after COMMIT;
--   after 1213 or 1205: ROLLBACK, and again from START TRANSACTION.

SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET @worker = 'worker-17', @lease_microseconds = 300 * 1000000;
SET @id = NULL, @payload = NULL, @attempts = NULL, @max_attempts = NULL;

START TRANSACTION;

-- No row (here a warning 1329) is "nothing visible now": others hold what there is, or nothing is ready. COMMIT,
-- and wait a little, jittered, before asking again.
SELECT id, payload, attempts, max_attempts
  INTO @id, @payload, @attempts, @max_attempts
  FROM jobs FORCE INDEX (claim_idx)
 WHERE status = 'pending'
   AND available_at <= NOW(6)
 ORDER BY priority DESC, id
 LIMIT 1
   FOR UPDATE SKIP LOCKED;

-- One row. If it is none although a job came back, the session lost its transaction: the job is somebody else's.
UPDATE jobs
   SET status = 'running',
       claimed_by = @worker,
       lease_until = TIMESTAMPADD(MICROSECOND, @lease_microseconds, NOW(6)),
       attempts = attempts + 1
 WHERE id = @id
   AND status = 'pending';

COMMIT;

-- What to keep for heartbeat.sql, complete.sql and fail.sql: id, worker, and the number of this attempt.
--
--    +------+------------------------------+----------+--------------+
--    | id   | payload                      | attempts | max_attempts |
--    +------+------------------------------+----------+--------------+
--    |    1 | {"to": 4711, "task": "send"} |        1 |            5 |
--    +------+------------------------------+----------+--------------+
SELECT @id AS id, @payload AS payload, @attempts + 1 AS attempts, @max_attempts AS max_attempts;
