CREATE STREAM hops (router STRING, site STRING, queue_ms DOUBLE, loss DOUBLE, fee DOUBLE, at TIMESTAMP)
  KEY (router) TIMESTAMP BY at;
CREATE TABLE routers (router STRING, path STRING, weight DOUBLE, region STRING);

--- path_latency
EXPLAIN (VERBOSE) CREATE CONTINUOUS QUERY path_latency AS
  SELECT path, AVG(queue_ms) AS ms FROM hops JOIN routers USING (router) GROUP BY path
  PRECISION ms WITHIN 5;

--- path_latency as JSON
EXPLAIN (FORMAT JSON) CREATE CONTINUOUS QUERY path_latency AS
  SELECT path, AVG(queue_ms) AS ms FROM hops JOIN routers USING (router) GROUP BY path
  PRECISION ms WITHIN 5;

--- path_latency as Mermaid
EXPLAIN (FORMAT MERMAID) CREATE CONTINUOUS QUERY path_latency AS
  SELECT path, AVG(queue_ms) AS ms FROM hops JOIN routers USING (router) GROUP BY path
  PRECISION ms WITHIN 5;

--- path_latency as HTML
EXPLAIN (FORMAT HTML) CREATE CONTINUOUS QUERY path_latency AS
  SELECT path, AVG(queue_ms) AS ms FROM hops JOIN routers USING (router) GROUP BY path
  PRECISION ms WITHIN 5;

--- a weighted sum, negative weights, in percent
EXPLAIN (VERBOSE) SELECT r.region, SUM(-r.weight * h.queue_ms - 2 * h.loss) AS score
  FROM hops h JOIN routers r ON h.router = r.router GROUP BY r.region
  PRECISION score WITHIN 0.5%;

--- minimum and maximum
EXPLAIN (VERBOSE) SELECT r.path, MIN(h.queue_ms) AS least, MAX(r.weight * h.queue_ms + h.loss) AS most
  FROM hops h JOIN routers r ON h.router = r.router GROUP BY r.path
  PRECISION least WITHIN 5, most WITHIN 10%;

--- minimum and maximum as JSON
EXPLAIN (FORMAT JSON) SELECT MIN(queue_ms) AS least, MAX(queue_ms) AS most FROM hops
  PRECISION least WITHIN 5, most WITHIN 10%;

--- a minimum beside an average
EXPLAIN (VERBOSE) SELECT r.path, MIN(h.queue_ms) AS least, AVG(h.queue_ms) AS mean, COUNT(*) AS n
  FROM hops h JOIN routers r ON h.router = r.router GROUP BY r.path
  PRECISION least WITHIN 5, mean WITHIN 2;

--- one of several answers bounded
EXPLAIN SELECT MIN(queue_ms) AS least, AVG(queue_ms) AS mean FROM hops PRECISION mean WITHIN 2;

--- flips, scales, defaults, filters and cases
EXPLAIN (VERBOSE) SELECT -MIN(h.queue_ms) AS a, MAX(h.queue_ms) / -4 + 1 AS b, COALESCE(MIN(ABS(h.loss)), 0) AS c,
    MAX(DISTINCT h.queue_ms * h.loss) FILTER (WHERE r.region = 'eu') AS d,
    MIN(CASE WHEN r.weight > 0 THEN h.queue_ms ELSE r.weight END) AS e
  FROM hops h LEFT JOIN routers r ON h.router = r.router
  PRECISION a WITHIN 1, b WITHIN 1, c WITHIN 1, d WITHIN 1, e WITHIN 1;

--- emitted by the minute
EXPLAIN SELECT AVG(queue_ms) AS ms FROM hops PRECISION WITHIN 5 EMIT EVERY INTERVAL '1' MINUTE;

--- many queries, folded
CREATE CONTINUOUS QUERY eu AS SELECT r.path, MIN(h.queue_ms) AS least, AVG(h.loss) AS loss
  FROM hops h JOIN routers r USING (router) WHERE r.region = 'eu' GROUP BY r.path PRECISION least WITHIN 5;
CREATE CONTINUOUS QUERY us AS SELECT r.path, MIN(h.queue_ms) AS least, AVG(h.loss) AS loss
  FROM hops h JOIN routers r USING (router) WHERE r.region = 'us' GROUP BY r.path PRECISION least WITHIN 7;
CREATE CONTINUOUS QUERY cn AS SELECT r.path, MIN(h.queue_ms) AS least, AVG(h.loss) AS loss
  FROM hops h JOIN routers r USING (router) WHERE r.region = 'cn' GROUP BY r.path PRECISION least WITHIN 9;
EXPLAIN (VERBOSE) CONTINUOUS QUERY us;

--- the reference method
SET filters = 'reference';
EXPLAIN SELECT AVG(queue_ms) AS ms FROM hops PRECISION ms WITHIN 5;

--- uniform
SET filters = 'uniform';
EXPLAIN SELECT AVG(queue_ms) AS ms FROM hops PRECISION ms WITHIN 5;

--- no filter
SET filters = 'none';
EXPLAIN SELECT AVG(queue_ms) AS ms FROM hops PRECISION ms WITHIN 5;

--- the method is that of the time of creation
SET filters = 'uniform';
CREATE CONTINUOUS QUERY latency AS SELECT AVG(queue_ms) AS ms FROM hops PRECISION ms WITHIN 5;
SET filters = 'adaptive';
EXPLAIN CONTINUOUS QUERY latency;

--- altered: another bound, the method of now
SET filters = 'uniform';
CREATE CONTINUOUS QUERY latency AS SELECT AVG(queue_ms) AS ms FROM hops PRECISION ms WITHIN 5;
SET filters = 'reference';
ALTER CONTINUOUS QUERY latency SET PRECISION ms WITHIN 2;
EXPLAIN CONTINUOUS QUERY latency;

--- sites, costs and rates
CREATE STREAM links (Link INT, Site STRING, rack INT, Gbps DOUBLE, Fee DOUBLE, Slew DOUBLE, at TIMESTAMP)
  KEY (link) TIMESTAMP BY at SOURCE BY (site, rack) LATENESS INTERVAL '2' SECONDS
  USING parquet OPTIONS (path 'links', message_cost 'fee', change_rate 'slew');
EXPLAIN SELECT SUM(gbps) AS load FROM links PRECISION load WITHIN 5;

--- a rate in numbers, without a source
CREATE STREAM links (link INT, gbps DOUBLE, at TIMESTAMP) KEY (link) TIMESTAMP BY at OPTIONS (change_rate '2.50');
EXPLAIN SELECT MAX(gbps) AS peak FROM links PRECISION peak WITHIN 5;

--- without the clause a minimum is exact
EXPLAIN SELECT MIN(queue_ms) AS least, AVG(queue_ms) AS mean FROM hops;

--- so is one of strings
EXPLAIN SELECT MIN(site) AS first_site FROM hops;
