CREATE STREAM quotes (symbol STRING, price DOUBLE, risk DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at;
CREATE TABLE holdings (account STRING, symbol STRING, shares DOUBLE, cost DOUBLE);

--- coherence
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes
  COHERENCE value WITHIN 80;

--- coherency in lower case, misspelt
create continuous query total as
  select sum(price) as value from quotes where symbol > 'a'
  coherancy value within 80;

--- coherency after GROUP BY
CREATE CONTINUOUS QUERY total AS
  SELECT symbol, SUM(price) AS value FROM quotes GROUP BY symbol
  COHERENY value WITHIN 80;

--- coherency after a parenthesis
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes WHERE symbol IN ('a', 'b')
  COHERECY value WITHIN 80;

--- withn
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes
  COHERENCY value WITHN 80;

--- within left out
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes
  COHERENCY value 80;

--- within and column left out
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes
  COHERENCY 80;

--- withn in the second bound
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value, AVG(price) AS mean FROM quotes
  COHERENCY value WITHIN 80, mean WITHN 2;

--- fidelty
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes
  COHERENCY value WITHIN 80
  FIDELTY 98%;

--- fidelty before coherency
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes
  FIDELTY 98%
  COHERENCY value WITHIN 80;

--- fidelity without a number
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes
  COHERENCY value WITHIN 80
  FIDELITY high;

--- precison
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes
  PRECISON value WITHIN 5;

--- memry
CREATE CONTINUOUS QUERY total AS
  SELECT q.price, h.shares FROM quotes q JOIN holdings h ON q.symbol = h.symbol
  MEMRY 10000 ROWS;

--- memory in words
CREATE CONTINUOUS QUERY total AS
  SELECT q.price, h.shares FROM quotes q JOIN holdings h ON q.symbol = h.symbol
  MEMORY many ROWS;

--- memory without rows
CREATE CONTINUOUS QUERY total AS
  SELECT q.price FROM quotes q
  MEMORY 10000;

--- responce
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes
  RESPONCE WITHIN INTERVAL '12' SECONDS;

--- notifiy
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes
  NOTIFIY WHEN value > 100;

--- emmit
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes
  EMMIT EVERY INTERVAL '1' MINUTE;

--- emit evry
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes
  EMIT EVRY INTERVAL '1' MINUTE;

--- in to
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes
  IN TO parquet OPTIONS (path 'out');

--- an unknown clause
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes
  COHERENCY value WITHIN 80
  TOLERANCE 5;

--- a clause word as an alias
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes MEMORY;

--- a clause before the end of the body
CREATE CONTINUOUS QUERY total AS
  SELECT symbol, SUM(price) AS value FROM quotes
  COHERENCY value WITHIN 80
  GROUP BY symbol;

--- over misspelt
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes
  COHERENCY value WITHIN 80 FIDELITY 98% OVR INTERVAL '1' HOUR;

--- interval left out
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes
  COHERENCY value WITHIN 80 FIDELITY 98% OVER '1' HOUR;

--- key misspelt in a stream
CREATE STREAM s (a INT, b INT) KYE (a) TIMESTAMP BY b;

--- timestamp misspelt in a stream
CREATE STREAM s (a INT, b INT) KEY (a) TIMESTMP BY b;

--- by left out in a stream
CREATE STREAM s (a INT, b INT) KEY (a) TIMESTAMP b;

--- latness
CREATE STREAM s (a INT, b INT) KEY (a) TIMESTAMP BY b LATNESS INTERVAL '2' SECONDS;

--- pull evry
CREATE STREAM s (a INT, b INT) KEY (a) TIMESTAMP BY b PULL EVRY INTERVAL '2' SECONDS;

--- delete where
CREATE STREAM s (a INT, b INT) KEY (a) TIMESTAMP BY b DELETE WHERE a IS NULL;

--- a clause misspelt after a condition
CREATE STREAM s (a INT, b INT) KEY (a) TIMESTAMP BY b DELETE WHEN a IS NULL USNG parquet;

--- serves misspelt
CREATE AGGREGATOR d1 SERVS quotes (price) ('S1' WITHIN 0.5);
