-- What a replica does and how far it is behind, a row for each of its channels; no row: it is no replica.
-- MySQL 8.0 before 8.0.22; removed in 8.4. Needs REPLICATION CLIENT. The columns are replica_status's under old names.
SHOW SLAVE STATUS
