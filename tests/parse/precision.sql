--- an average
CREATE CONTINUOUS QUERY path_latency AS
  SELECT path, AVG(queue_ms) AS ms FROM hops JOIN routers USING (router) GROUP BY path
  PRECISION ms WITHIN 5;

--- a percentage of a weighted sum
CREATE CONTINUOUS QUERY p AS
  SELECT account, SUM(shares * price - cost) AS value FROM quotes JOIN holdings USING (symbol) GROUP BY account
  PRECISION value WITHIN 0.5%;

--- without a name
CREATE CONTINUOUS QUERY p AS SELECT MIN(price) AS least FROM quotes PRECISION WITHIN 1e-3;

--- several, other clauses around it
CREATE CONTINUOUS QUERY p AS SELECT MIN(price) AS a, MAX(price) AS b, AVG(price) AS c FROM quotes
  EMIT EVERY INTERVAL '1' MINUTE PRECISION a WITHIN 2, b WITHIN 2.5 %, `c` WITHIN 0 INTO parquet OPTIONS (path 'out');

--- alter
ALTER CONTINUOUS QUERY p SET PRECISION ms WITHIN 2, least WITHIN 1%;

--- methods
SET filters = 'reference'; set Filters = uniform; SET filters = none;

--- columns called precision and filters
CREATE CONTINUOUS QUERY p AS
  SELECT SUM(precision) AS precision, MAX(filters) AS filters FROM precision PRECISION precision WITHIN 5, filters WITHIN 1;

--- options without a source
CREATE STREAM hops (router STRING, queue_ms DOUBLE, fee DOUBLE, at TIMESTAMP) KEY (router) TIMESTAMP BY at
  OPTIONS (message_cost 'fee', change_rate '2.5');

--- options before and after other clauses
CREATE STREAM a (k INT, v DOUBLE, t INT) OPTIONS (change_rate = 2.5) KEY (k) SOURCE BY (k) TIMESTAMP BY t USING csv;
CREATE STREAM b (k INT, v DOUBLE, t INT) USING csv KEY (k) TIMESTAMP BY t DELETE WHEN v < 0 OPTIONS (path 'x', change_rate v);
