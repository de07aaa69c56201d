-- one of every statement; the columns of the design's examples

--- create stream
CREATE STREAM quotes (symbol STRING, price DOUBLE, per DOUBLE, risk DOUBLE, at TIMESTAMP)
  KEY (symbol)
  TIMESTAMP BY at
  LATENESS INTERVAL '2' SECONDS
  SOURCE BY (exchange)
  DELETE WHEN price IS NULL
  PULL EVERY INTERVAL '1' SECOND
  USING parquet OPTIONS (path 'data/quotes');

--- create table
CREATE TABLE holdings USING csv OPTIONS (path 'holdings.csv', header 'true', inferSchema 'true');

--- create aggregator
CREATE AGGREGATOR d1 SERVES quotes (price) ('S1' WITHIN 0.5, 'S3' WITHIN 0.2);

--- create aggregator without a column
CREATE AGGREGATOR d1 SERVES quotes ('S1' WITHIN 0.5, 17 WITHIN 2%);

--- create aggregators
CREATE AGGREGATORS FOR quotes AS SELECT node, symbol, bound FROM served;

--- analyze stream
ANALYZE STREAM quotes;

--- analyze stream from history
ANALYZE STREAM quotes FROM history;

--- analyze stream from a query
ANALYZE STREAM quotes FROM (SELECT * FROM history WHERE at > '2024-01-01');

--- create continuous query
CREATE CONTINUOUS QUERY portfolio AS
  SELECT h.account, SUM(h.shares * q.price) AS value
  FROM quotes q JOIN holdings h ON q.symbol = h.symbol
  GROUP BY h.account
  COHERENCY value WITHIN 80
  FIDELITY 98% OVER INTERVAL '1' HOUR
  INTO parquet OPTIONS (path 'out');

--- create continuous query with precision
CREATE CONTINUOUS QUERY path_latency AS
  SELECT path, AVG(queue_ms) AS ms FROM hops JOIN routers USING (router) GROUP BY path
  PRECISION ms WITHIN 5;

--- create or replace
CREATE OR REPLACE CONTINUOUS QUERY portfolio AS SELECT 1;

--- if not exists
CREATE CONTINUOUS QUERY IF NOT EXISTS portfolio AS SELECT 1;
CREATE STREAM IF NOT EXISTS quotes (a INT) TIMESTAMP BY a;

--- alter
ALTER CONTINUOUS QUERY portfolio SET COHERENCY value WITHIN 40;

--- alter every clause
ALTER CONTINUOUS QUERY p SET PRECISION a WITHIN 1, b WITHIN 2%;
ALTER CONTINUOUS QUERY p SET FIDELITY 99%;
ALTER CONTINUOUS QUERY p SET RESPONSE WITHIN INTERVAL '12' SECONDS;
ALTER CONTINUOUS QUERY p SET NOTIFY WHEN value > 100;
ALTER CONTINUOUS QUERY p SET MEMORY 10 ROWS;
ALTER CONTINUOUS QUERY p SET EMIT EVERY INTERVAL '1' DAY;
ALTER CONTINUOUS QUERY p SET INTO csv;

--- drop
DROP CONTINUOUS QUERY portfolio;
DROP CONTINUOUS QUERY IF EXISTS portfolio;
DROP STREAM quotes;
DROP STREAM IF EXISTS quotes;
DROP AGGREGATOR d1;
DROP AGGREGATOR IF EXISTS d1;
DROP TABLE holdings;

--- refresh
REFRESH TABLE holdings;
REFRESH TABLE main.`my holdings`;

--- show
SHOW CONTINUOUS QUERIES;
SHOW STREAMS;
SHOW AGGREGATORS;
SHOW STATISTICS;
SHOW SETTINGS;
SHOW TABLES;

--- set
SET split = 'min-cost';
SET Split = NAIVE;
SET split_alpha = 0.5;
SET spark.sql.shuffle.partitions = 4;
SET TIME ZONE 'UTC';

--- explain
EXPLAIN SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN 5;
EXPLAIN CREATE CONTINUOUS QUERY p AS SELECT 1 FROM quotes;
EXPLAIN CONTINUOUS QUERY p;
EXPLAIN ANALYZE CONTINUOUS QUERY p;
EXPLAIN (VERBOSE) CONTINUOUS QUERY p;
EXPLAIN (FORMAT JSON) CONTINUOUS QUERY p;
EXPLAIN ANALYZE (format mermaid, verbose) SELECT 1 FROM quotes;
EXPLAIN (SELECT 1 FROM quotes);
EXPLAIN EXTENDED SELECT 1;

--- lower case
create stream quotes (symbol string, price double, at timestamp) key (symbol) timestamp by at lateness interval 2 seconds;
create continuous query total as select sum(price) as value from quotes
  coherency value within 80 fidelity 98% over interval '1' hour emit every interval 1 minute into csv options (path 'x');
alter continuous query total set coherency within 5;
explain (format json) continuous query total;
drop continuous query if exists total;
show continuous queries;
set route = 'probe';

--- plain spark sql
SELECT a, SUM(b) AS b FROM t WHERE a IN (1, 2) AND c > (SELECT MAX(c) FROM t) GROUP BY a;
INSERT INTO t VALUES (1, 'coherency value within 5'), (2, 'x');
CREATE TEMPORARY VIEW v AS SELECT SUM(b) AS b FROM (SELECT b FROM t) u;
WITH t AS (SELECT 1 AS a) SELECT a FROM t;
(SELECT 1) UNION ALL (SELECT 2);
CACHE TABLE t;
