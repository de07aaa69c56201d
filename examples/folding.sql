-- Many small queries that differ only in literals cost about as much as one.
--
--   deadband run examples/folding.sql
--   deadband explain examples/folding.sql
--
-- Each dashboard tile below is a query of its own, with its own filter and its own bound. The compiler sees that they
-- are one query with different literals and folds them into one group: one plan, one pass over the stream. Ten
-- thousand tiles work the same way.

CREATE TEMPORARY VIEW servers AS
  SELECT format_string('host-%03d', id) AS host, element_at(array('eu', 'us', 'asia'), CAST(id % 3 + 1 AS INT)) AS region, id % 4 AS rack
  FROM range(60);

CREATE TEMPORARY VIEW load_log AS
  SELECT host, second, 50 + 40 * sin(second / 20 + rack) + pmod(xxhash64(host, second), 7) AS load
  FROM servers CROSS JOIN (SELECT id AS second FROM range(200));

CREATE STREAM loads (host STRING, load DOUBLE, second BIGINT)
  KEY (host)
  TIMESTAMP BY second
  USING table OPTIONS (name 'load_log');

CREATE CONTINUOUS QUERY eu   AS SELECT AVG(l.load) AS load FROM loads l JOIN servers s ON l.host = s.host WHERE s.region = 'eu'   COHERENCY load WITHIN 5;
CREATE CONTINUOUS QUERY us   AS SELECT AVG(l.load) AS load FROM loads l JOIN servers s ON l.host = s.host WHERE s.region = 'us'   COHERENCY load WITHIN 5;
CREATE CONTINUOUS QUERY asia AS SELECT AVG(l.load) AS load FROM loads l JOIN servers s ON l.host = s.host WHERE s.region = 'asia' COHERENCY load WITHIN 2;

CREATE CONTINUOUS QUERY rack_0 AS SELECT SUM(l.load) AS load FROM loads l JOIN servers s ON l.host = s.host WHERE s.rack = 0 COHERENCY load WITHIN 50;
CREATE CONTINUOUS QUERY rack_1 AS SELECT SUM(l.load) AS load FROM loads l JOIN servers s ON l.host = s.host WHERE s.rack = 1 COHERENCY load WITHIN 50;
CREATE CONTINUOUS QUERY rack_2 AS SELECT SUM(l.load) AS load FROM loads l JOIN servers s ON l.host = s.host WHERE s.rack = 2 COHERENCY load WITHIN 100;
CREATE CONTINUOUS QUERY rack_3 AS SELECT SUM(l.load) AS load FROM loads l JOIN servers s ON l.host = s.host WHERE s.rack = 3 COHERENCY load WITHIN 100;

SHOW CONTINUOUS QUERIES;
