-- Have this session read table sizes from InnoDB, not from a cache of up to a day. MySQL 8.0 and later; needs nothing.
SET SESSION information_schema_stats_expiry = 0
