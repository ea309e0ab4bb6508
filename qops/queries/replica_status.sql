-- What a replica does and how far it is behind, a row for each of its channels; no row: it is no replica.
-- MySQL 8.0.22 and later. Needs REPLICATION CLIENT. Seconds_Behind_Source is NULL while either thread does not run.
SHOW REPLICA STATUS
