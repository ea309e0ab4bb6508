-- What this account and its active roles (also those behind them) may do, as GRANT and REVOKE statements. MySQL 8.0 and
-- later; needs nothing.
SHOW GRANTS
