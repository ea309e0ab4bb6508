-- How many rows were read by each index of one table since the server started, or since the counters were set back.
-- MySQL 8.0 and later, with the instrument wait/io/table/sql/handler (on by default). Needs SELECT on the table of
-- performance_schema.
SELECT u.index_name AS name,
       u.count_fetch AS fetched,
       (SELECT s.variable_value + 0 FROM performance_schema.global_status AS s WHERE s.variable_name = 'Uptime')
           AS uptime
  FROM performance_schema.table_io_waits_summary_by_index_usage AS u
 WHERE u.object_type = 'TABLE'
   AND u.object_schema = :schema
   AND u.object_name = :table
   AND u.index_name IS NOT NULL
