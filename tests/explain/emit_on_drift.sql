CREATE STREAM quotes (symbol STRING, price DOUBLE, per DOUBLE, risk DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at;
CREATE STREAM demand (id INT, symbol STRING, price DOUBLE, at TIMESTAMP) KEY (id) TIMESTAMP BY at;
CREATE TABLE holdings (account STRING, symbol STRING, shares DOUBLE, cost DOUBLE, sector STRING);
CREATE TABLE subs (id INT, lo DOUBLE, hi DOUBLE);

--- portfolio
EXPLAIN CREATE CONTINUOUS QUERY portfolio AS
  SELECT h.account, SUM(h.shares * q.price) AS value
  FROM quotes q JOIN holdings h ON q.symbol = h.symbol
  GROUP BY h.account
  COHERENCY value WITHIN 80
  FIDELITY 98% OVER INTERVAL '1' HOUR
  INTO parquet OPTIONS (path 'out');

--- percent, several bounds, one answer exact
EXPLAIN SELECT symbol, SUM(price) AS value, AVG(risk) AS mean, COUNT(*) AS n FROM quotes GROUP BY symbol
  COHERENCY value WITHIN 0.5%, mean WITHIN 2;

--- a stream with a source, late and emitted by the minute
CREATE STREAM meters (id INT, watts DOUBLE, t BIGINT) KEY (id) TIMESTAMP BY t LATENESS INTERVAL '2' SECONDS
  USING parquet OPTIONS (path 'data/meters');
EXPLAIN SELECT SUM(watts) AS total FROM meters COHERENCY WITHIN 100 FIDELITY 90% EMIT EVERY INTERVAL '1' MINUTE;
