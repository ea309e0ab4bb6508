-- Whether this account may read every schema (1), and so sees every foreign key. With partial revokes a global
-- SELECT has holes. MySQL 8.0.16 and later; `user_privileges` lists the account's own global privileges.
SELECT COUNT(*) > 0 AND MAX(@@partial_revokes) = 0 AS everything
  FROM information_schema.user_privileges
 WHERE privilege_type IN ('SELECT', 'REFERENCES')
   AND grantee = CONCAT("'", SUBSTRING_INDEX(CURRENT_USER(), '@', 1), "'@'", SUBSTRING_INDEX(CURRENT_USER(), '@', -1), "'")
