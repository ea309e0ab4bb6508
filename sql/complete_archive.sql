-- Move a job that is done straight to the archive, instead of marking it (complete.sql) and leaving it to
-- `qops archive`.
--
-- MySQL 8.0 and later. Needs SELECT, UPDATE and DELETE on the table, SELECT and INSERT on the archive. This is what
-- the Worker class sends; with a driver, read the row instead of the INTO.
--
-- The WHERE is the fence: the job still runs, is this worker's, in this attempt (which tells two processes of one
-- name apart), and its lease has not passed. No row: the lease is lost. ROLLBACK, and do not report the work as done:
-- somebody else may have the job by now.
-- The INSERT and the DELETE have to affect one row each; otherwise ROLLBACK.

-- A user variable has the collation of the connection, which must not differ from the column's; the parameters of a
-- driver need no such line.
SET NAMES utf8mb4 COLLATE utf8mb4_bin;
SET @id = 1, @worker = 'worker-17', @attempts = 1;
SET @held = NULL;

START TRANSACTION;

SELECT id
  INTO @held
  FROM jobs
 WHERE id = @id
   AND status = 'running'
   AND claimed_by = @worker
   AND attempts = @attempts
   AND lease_until >= NOW(6)
   FOR UPDATE;

INSERT INTO jobs_archive (id, status, priority, payload, claimed_by, lease_until, available_at, attempts,
                          max_attempts, last_error, created_at, finished_at)
SELECT id, 'done' AS status, priority, payload, claimed_by, NULL AS lease_until, available_at, attempts,
       max_attempts, last_error, created_at, NOW(6) AS finished_at
  FROM jobs
 WHERE id = @held;

DELETE FROM jobs
 WHERE id = @held;

-- 1 moved, 0 lost:
--
--    +-------+
--    | moved |
--    +-------+
--    |     1 |
--    +-------+
SELECT ROW_COUNT() AS moved;

COMMIT;
