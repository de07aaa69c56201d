CREATE STREAM quotes (symbol STRING, price DOUBLE, risk DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at;
CREATE TABLE holdings (account STRING, symbol STRING, shares DOUBLE, cost DOUBLE);

--- coherency twice
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes
  COHERENCY value WITHIN 80
  COHERENCY value WITHIN 90;

--- fidelity twice
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes
  FIDELITY 98% COHERENCY value WITHIN 80 FIDELITY 99%;

--- into twice
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes INTO parquet OPTIONS (path 'a') INTO csv OPTIONS (path 'b');

--- emit twice
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes EMIT EVERY INTERVAL '1' HOUR EMIT EVERY INTERVAL '2' HOURS;

--- key twice
CREATE STREAM s (a INT, b INT) KEY (a) TIMESTAMP BY b KEY (a);

--- timestamp twice
CREATE STREAM s (a INT, b INT) TIMESTAMP BY b TIMESTAMP BY a;

--- using twice
CREATE STREAM s (a INT, b INT) TIMESTAMP BY b USING csv USING parquet;

--- delete when twice
CREATE STREAM s (a INT, b INT) KEY (a) TIMESTAMP BY b DELETE WHEN a = 1 DELETE WHEN a = 2;

--- coherency with precision
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes
  COHERENCY value WITHIN 80
  PRECISION value WITHIN 5;

--- a group column
CREATE CONTINUOUS QUERY total AS
  SELECT symbol, SUM(price) AS value FROM quotes GROUP BY symbol
  COHERENCY symbol WITHIN 80;

--- a column that is not an aggregate
CREATE CONTINUOUS QUERY total AS SELECT symbol, price FROM quotes COHERENCY price WITHIN 80;

--- an unknown column
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY valeu WITHIN 80;

--- a column of the stream
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY price WITHIN 80;

--- a qualified column
CREATE CONTINUOUS QUERY total AS SELECT SUM(q.price) AS value FROM quotes q COHERENCY q.value WITHIN 80;

--- no column with several aggregates
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value, AVG(risk) AS risk FROM quotes COHERENCY WITHIN 80;

--- one column bounded twice
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value, AVG(risk) AS risk FROM quotes COHERENCY value WITHIN 80, VALUE WITHIN 5;

--- one column bounded with and without its name
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN 80, WITHIN 5;

--- an aggregate without a name
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price), AVG(risk) FROM quotes COHERENCY price WITHIN 80;

--- fidelity without coherency
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes FIDELITY 98%;

--- fidelity without percent
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY WITHIN 80 FIDELITY 98;

--- fidelity as a share
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY WITHIN 80 FIDELITY 0.98;

--- fidelity 0%
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY WITHIN 80 FIDELITY 0%;

--- fidelity 120%
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY WITHIN 80 FIDELITY 120%;

--- negative fidelity
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY WITHIN 80 FIDELITY -5%;

--- a window of nothing
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes COHERENCY WITHIN 80 FIDELITY 98% OVER INTERVAL '0' SECONDS;

--- emit every nothing
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes EMIT EVERY INTERVAL '0' SECONDS;

--- into with an unclosed list of options
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes INTO parquet OPTIONS (path 'out';

--- options without a value
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes INTO parquet OPTIONS (path);

--- a pull stream without fidelity
CREATE STREAM polled (symbol STRING, price DOUBLE, at TIMESTAMP)
  KEY (symbol) TIMESTAMP BY at PULL EVERY INTERVAL '1' SECOND;
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM polled COHERENCY value WITHIN 80;

--- a pull stream without clauses
CREATE STREAM polled (symbol STRING, price DOUBLE, at TIMESTAMP)
  KEY (symbol) TIMESTAMP BY at PULL EVERY INTERVAL '1' SECOND;
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM polled;

--- a pull stream with full fidelity
CREATE STREAM polled (symbol STRING, price DOUBLE, at TIMESTAMP)
  KEY (symbol) TIMESTAMP BY at PULL EVERY INTERVAL '1' SECOND;
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM polled COHERENCY value WITHIN 80 FIDELITY 100%;

--- precision on a pull stream
CREATE STREAM polled (symbol STRING, price DOUBLE, at TIMESTAMP)
  KEY (symbol) TIMESTAMP BY at PULL EVERY INTERVAL '1' SECOND;
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM polled PRECISION value WITHIN 80;
