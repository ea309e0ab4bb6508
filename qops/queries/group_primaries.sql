-- The members of this server's replication group that take writes. MySQL 8.0.2 and later.
-- Needs SELECT on the table. No row: this server is in no group.
SELECT CONCAT(member_host, ':', member_port) AS place
  FROM performance_schema.replication_group_members
 WHERE member_role = 'PRIMARY'
   AND member_state = 'ONLINE'
 LIMIT 20
