-- Say that a job failed: it waits for its next attempt, or is given up when there is none left.
--
-- MySQL 8.0 and later. Needs SELECT and UPDATE on the table. This is what the Worker class sends, both statements in
-- one transaction, the second where the first affected no row.
--
-- The WHERE is the fence: the job still runs, is this worker's, in this attempt (which tells two processes of one
-- name apart), and its lease has not passed. No row twice: the lease is lost. Stop, and do not report the work as done:
-- somebody else may have the job by now.

-- A user variable has the collation of the connection, which must not differ from the column's; the parameters of a
-- driver need no such line.
SET NAMES utf8mb4 COLLATE utf8mb4_bin;
SET @id = 1, @worker = 'worker-17', @attempts = 1;
SET @error = 'SMTP 451: try again later';

-- How long to wait: 5 s, doubling with every attempt up to an hour, and jittered over the upper half of that, so that
-- what failed together does not come back together.
SET @backoff_microseconds = ROUND(LEAST(3600, 5 * POW(2, @attempts - 1)) * (1 + RAND()) / 2 * 1000000);

START TRANSACTION;

-- Scheduled: promote.sql, `qops promote` or a Worker make it pending when its time has come.
UPDATE jobs
   SET status = 'scheduled',
       available_at = TIMESTAMPADD(MICROSECOND, @backoff_microseconds, NOW(6)),
       claimed_by = NULL,
       lease_until = NULL,
       last_error = @error
 WHERE id = @id
   AND status = 'running'
   AND claimed_by = @worker
   AND attempts = @attempts
   AND lease_until >= NOW(6)
   AND attempts < max_attempts;

-- Given up. Send this one alone for an error that no repetition can cure. `qops requeue` brings failed jobs back.
UPDATE jobs
   SET status = 'failed',
       lease_until = NULL,
       finished_at = NOW(6),
       last_error = @error
 WHERE id = @id
   AND status = 'running'
   AND claimed_by = @worker
   AND attempts = @attempts
   AND lease_until >= NOW(6);

COMMIT;

-- What became of it:
--
--    +-----------+----------+--------------+---------------------------+
--    | status    | attempts | max_attempts | last_error                |
--    +-----------+----------+--------------+---------------------------+
--    | scheduled |        1 |            5 | SMTP 451: try again later |
--    +-----------+----------+--------------+---------------------------+
SELECT status, attempts, max_attempts, last_error FROM jobs WHERE id = @id;
