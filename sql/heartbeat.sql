-- Extend the lease of a job that takes longer; send it at a third of the lease or so.
--
-- MySQL 8.0 and later. Needs SELECT and UPDATE on the table. This is what the Worker class sends.
--
-- The WHERE is the fence: the job still runs, is this worker's, in this attempt (which tells two processes of one
-- name apart), and its lease has not passed. No row: the lease is lost. Stop, and do not report the work as done:
-- somebody else may have the job by now.

-- A user variable has the collation of the connection, which must not differ from the column's; the parameters of a
-- driver need no such line.
SET NAMES utf8mb4 COLLATE utf8mb4_bin;
SET @id = 1, @worker = 'worker-17', @attempts = 1, @lease_microseconds = 300 * 1000000;

UPDATE jobs
   SET lease_until = TIMESTAMPADD(MICROSECOND, @lease_microseconds, NOW(6))
 WHERE id = @id
   AND status = 'running'
   AND claimed_by = @worker
   AND attempts = @attempts
   AND lease_until >= NOW(6);

-- 1 held, 0 lost:
--
--    +------+
--    | held |
--    +------+
--    |    1 |
--    +------+
SELECT ROW_COUNT() AS held;
