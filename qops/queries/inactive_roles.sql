-- Roles that were granted to this account and are not active in this session. MySQL 8.0.19 and later; needs nothing.
SELECT CONCAT(role_name, '@', role_host) AS role
  FROM information_schema.applicable_roles
 WHERE (role_name, role_host) NOT IN (SELECT role_name, role_host FROM information_schema.enabled_roles)
 GROUP BY role_name, role_host
 ORDER BY role_name, role_host
