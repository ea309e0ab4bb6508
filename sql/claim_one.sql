-- Claim a given job, if it is ready and nobody holds it.
--
-- MySQL 8.0 and later (NOWAIT). Needs SELECT and UPDATE on the table. This is what the Worker class sends; see
-- claim.sql for what matters about a claim.
--
-- ERROR 3572 (Statement aborted because lock(s) could not be acquired immediately and NOWAIT is set): another
-- session holds the row. ERROR 1205 means the same here; it also comes when a pending ALTER TABLE holds up every
-- statement, because NOWAIT does not cover metadata locks. After either: ROLLBACK.

SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET @wanted = 1, @worker = 'worker-17', @lease_microseconds = 300 * 1000000;
SET @id = NULL, @payload = NULL, @attempts = NULL, @max_attempts = NULL;

START TRANSACTION;

-- No row (here a warning 1329): there is no such job, or it is not pending, or its time has not come.
SELECT id, payload, attempts, max_attempts
  INTO @id, @payload, @attempts, @max_attempts
  FROM jobs
 WHERE id = @wanted
   AND status = 'pending'
   AND available_at <= NOW(6)
   FOR UPDATE NOWAIT;

UPDATE jobs
   SET status = 'running',
       claimed_by = @worker,
       lease_until = TIMESTAMPADD(MICROSECOND, @lease_microseconds, NOW(6)),
       attempts = attempts + 1
 WHERE id = @id
   AND status = 'pending';

COMMIT;

--    +------+------------------------------+----------+--------------+
--    | id   | payload                      | attempts | max_attempts |
--    +------+------------------------------+----------+--------------+
--    |    1 | {"to": 4711, "task": "send"} |        1 |            5 |
--    +------+------------------------------+----------+--------------+
SELECT @id AS id, @payload AS payload, @attempts + 1 AS attempts, @max_attempts AS max_attempts;
