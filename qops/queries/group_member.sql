-- This server as a member of a replication group: its state, what waits to be applied, and how old that is.
-- MySQL 8.0 and later. Needs SELECT on the performance_schema tables below. No row: the server is in no group.
-- The age is that of the oldest transaction that a worker or the coordinator has in hand, by its original commit.
SELECT m.member_state AS state,
       m.member_role AS role,
       s.count_transactions_remote_in_applier_queue AS queued,
       (SELECT MAX(TIMESTAMPDIFF(MICROSECOND, w.applying_transaction_original_commit_timestamp, NOW(6)))
          FROM performance_schema.replication_applier_status_by_worker AS w
         WHERE w.channel_name = 'group_replication_applier'
           AND w.applying_transaction <> '') / 1e6 AS applying_seconds,
       (SELECT MAX(TIMESTAMPDIFF(MICROSECOND, c.processing_transaction_original_commit_timestamp, NOW(6)))
          FROM performance_schema.replication_applier_status_by_coordinator AS c
         WHERE c.channel_name = 'group_replication_applier'
           AND c.processing_transaction <> '') / 1e6 AS distributing_seconds
  FROM performance_schema.replication_group_members AS m
  LEFT JOIN performance_schema.replication_group_member_stats AS s
    ON s.member_id = m.member_id
 WHERE m.member_id = @@server_uuid
