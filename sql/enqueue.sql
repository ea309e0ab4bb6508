-- Add a job.
--
-- MySQL 8.0 and later. Needs INSERT on the table. This is what the Worker class sends; with a driver, give the
-- values that are user variables here as parameters.

SET @payload = '{"task": "send", "to": 4711}', @priority = 5;
SET @delay_microseconds = 90 * 1000000;

-- Ready at once. A higher priority is claimed earlier.
INSERT INTO jobs (status, priority, payload)
VALUES ('pending', @priority, @payload);

-- Its id, for this session only:
--
--    +----+
--    | id |
--    +----+
--    |  1 |
--    +----+
SELECT LAST_INSERT_ID() AS id;

-- Ready later: scheduled, not pending, so that a claim need not step over it. It waits for promote.sql, for
-- `qops promote` or for a Worker, any of which make it pending when its time has come.
INSERT INTO jobs (status, priority, payload, available_at)
VALUES ('scheduled', @priority, @payload, TIMESTAMPADD(MICROSECOND, @delay_microseconds, NOW(6)));
