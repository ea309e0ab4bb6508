-- Which server this is, and who we are on it. MySQL 8.0 and later; needs nothing.
SELECT @@version AS version,
       @@version_comment AS comment,
       @@hostname AS hostname,
       @@port AS port,
       @@socket AS socket,
       @@server_uuid AS uuid,
       CURRENT_USER() AS account
