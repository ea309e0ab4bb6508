-- The archive: where `qops archive` moves finished jobs.
--
-- MySQL 8.0 and later. This is what `qops init` sends for the default queue; run it in the application's schema. It
-- needs CREATE, and changes nothing where the table exists.
--
-- Columns and types are those of the queue, so that a row arrives unchanged; the archiver refuses to run where they
-- differ. Nothing has a default of its own, so that a copy which leaves a column out fails instead of making a value
-- up. Only the TIMESTAMPs that are NOT NULL have one, because a server with explicit_defaults_for_timestamp = OFF
-- would otherwise set them to the time of every later change. The id is the queue's, not counted here.
--
-- finished_idx is for `qops expire`, which finds old jobs by it; without it every run would read the whole archive. It
-- costs the archiver 1.06 x the redo and 1.02 x the server's CPU (MySQL 9.7.4, 2 cores, durable log). Others would be
-- paid for with every job too: add those that your reports need.

CREATE TABLE IF NOT EXISTS jobs_archive (
  id BIGINT UNSIGNED NOT NULL,
  status ENUM('pending','running','done','failed','scheduled') NOT NULL,
  priority INTEGER NOT NULL,
  payload JSON NOT NULL,
  claimed_by VARCHAR(64),
  lease_until TIMESTAMP(6) NULL,
  available_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  attempts INTEGER UNSIGNED NOT NULL,
  max_attempts INTEGER UNSIGNED NOT NULL,
  last_error TEXT,
  created_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  finished_at TIMESTAMP(6) NULL,
  PRIMARY KEY (id),
  KEY finished_idx (finished_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
