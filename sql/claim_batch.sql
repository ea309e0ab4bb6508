-- Claim several jobs at once.
--
-- MySQL 8.0 and later (SKIP LOCKED). Needs SELECT and UPDATE on the table. This is what the Worker class sends.
-- See claim.sql for what matters about a claim. Keep workers x batch under about 400: a claim steps over every row
-- that the others hold.

SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET @worker = 'worker-17', @lease_microseconds = 300 * 1000000;

START TRANSACTION;

-- Fewer than 20 rows: no more are visible now. That is not an empty queue; work on what came, wait a little, and
-- only then ask again.
--
--    +----+------------------------------+----------+--------------+
--    | id | payload                      | attempts | max_attempts |
--    +----+------------------------------+----------+--------------+
--    |  1 | {"to": 4711, "task": "send"} |        0 |            5 |
--    |  2 | {"to": 4712, "task": "send"} |        0 |            5 |
--    |  3 | {"to": 4713, "task": "send"} |        0 |            5 |
--    +----+------------------------------+----------+--------------+
SELECT id, payload, attempts, max_attempts
  FROM jobs FORCE INDEX (claim_idx)
 WHERE status = 'pending'
   AND available_at <= NOW(6)
 ORDER BY priority DESC, id
 LIMIT 20
   FOR UPDATE SKIP LOCKED;

-- The ids that came back, and no others. As many rows as ids; if fewer, the session lost its transaction: ROLLBACK.
UPDATE jobs
   SET status = 'running',
       claimed_by = @worker,
       lease_until = TIMESTAMPADD(MICROSECOND, @lease_microseconds, NOW(6)),
       attempts = attempts + 1
 WHERE id IN (1, 2, 3)
   AND status = 'pending';

COMMIT;
