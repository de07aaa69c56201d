CREATE STREAM quotes (symbol STRING, price DOUBLE, risk DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at;
CREATE TABLE holdings (account STRING, symbol STRING, shares DOUBLE, cost DOUBLE);

--- response
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes
  RESPONSE WITHIN INTERVAL '12' SECONDS;

--- notify
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes
  NOTIFY WHEN value > 100;

--- memory
CREATE CONTINUOUS QUERY total AS SELECT q.price FROM quotes q JOIN holdings h ON q.symbol = h.symbol
  MEMORY 10000 ROWS;

--- pull
CREATE STREAM polled (symbol STRING, price DOUBLE, at TIMESTAMP)
  KEY (symbol)
  TIMESTAMP BY at
  PULL EVERY INTERVAL '1' SECOND;
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM polled COHERENCY value WITHIN 80 FIDELITY 98%;

--- aggregator
CREATE AGGREGATOR d1 SERVES quotes (price) ('S1' WITHIN 0.5, 'S3' WITHIN 0.2);

--- aggregator of an unknown stream
CREATE AGGREGATOR d1 SERVES qoutes ('S1' WITHIN 0.5);

--- aggregators
CREATE AGGREGATORS FOR quotes AS SELECT node, symbol, bound FROM served;

--- aggregators of an unknown stream
CREATE AGGREGATORS FOR quots AS SELECT node, symbol, bound FROM served;

--- drop aggregator
DROP AGGREGATOR d1;

--- show aggregators
SHOW AGGREGATORS;

--- several lines
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes
  NOTIFY WHEN value > 100
    AND value < 1000
  RESPONSE WITHIN INTERVAL '12' SECONDS;

--- alter to a clause that comes later
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN 5;
ALTER CONTINUOUS QUERY total SET MEMORY 5 ROWS;

--- a numeric setting
SET split_alpha = 0.5;
