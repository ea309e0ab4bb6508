-- Make scheduled jobs pending whose time has come: delayed ones, and failed ones that waited for their next attempt.
--
-- MySQL 8.0 and later (SKIP LOCKED). Needs SELECT and UPDATE on the table. This is what the Worker class sends once a
-- second and whenever it finds nothing to claim, unless `qops pause` is on. Where no Worker runs, run it every few
-- seconds, or leave it to `qops promote` in cron. Any number of sessions may run it at once.
--
-- The inner SELECT walks along available_idx and locks what it takes, passing over rows that others hold. The hint
-- keeps the UPDATE on exactly those ids: without it a small table is read as a whole, which waits for rows that are
-- none of its business. 100 rows affected: there may be more, run it again.

SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;

UPDATE /*+ JOIN_ORDER(qops_due, jobs) INDEX(jobs PRIMARY) */
       jobs,
       (SELECT id
          FROM jobs FORCE INDEX (available_idx)
         WHERE status = 'scheduled'
           AND available_at <= NOW(6)
         ORDER BY available_at, id
         LIMIT 100
           FOR UPDATE SKIP LOCKED) AS qops_due
   SET jobs.status = 'pending'
 WHERE jobs.id = qops_due.id;

--    +----------+
--    | promoted |
--    +----------+
--    |        3 |
--    +----------+
SELECT ROW_COUNT() AS promoted;
