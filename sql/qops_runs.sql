-- The run ledger: one entry for every run of a qops command that changes rows, and for every pause.
--
-- MySQL 8.0 and later. This is what `qops init` sends; run it in the application's schema. It needs CREATE, and
-- changes nothing where the table exists. Every queue of the schema shares it; its name is fixed.
--
-- An entry is committed before the work begins and closed after it, so a run that was killed stays visible as one
-- without finished_at. A pause is an entry with command 'pause' that is in force until finished_at is set or
-- expires_at has come; queue_idx finds it before every batch. Read it, but leave writing it to qops; entries that are
-- finished and older than you care for may be deleted.

CREATE TABLE IF NOT EXISTS qops_runs (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  command VARCHAR(32) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  queue VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  arguments JSON,
  started_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  finished_at TIMESTAMP(6) NULL,
  expires_at TIMESTAMP(6) NULL COMMENT 'when a pause ends by itself',
  outcome VARCHAR(16) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  summary JSON,
  operator VARCHAR(255) COMMENT 'account and operating system user',
  host VARCHAR(255),
  connection_id BIGINT UNSIGNED,
  reason TEXT,
  PRIMARY KEY (id),
  KEY queue_idx (queue, command, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
