-- The server's clock, its version, and whether it records what sessions do. MySQL 8.0 and later; needs nothing.
SELECT UTC_TIMESTAMP(6) AS taken_at,
       VERSION() AS version,
       @@GLOBAL.performance_schema AS performance_schema,
       CURRENT_USER() AS account
