CREATE STREAM quotes (symbol STRING, name STRING, price DOUBLE, risk DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at;
CREATE STREAM trades (symbol STRING, price DOUBLE, at TIMESTAMP) TIMESTAMP BY at;
CREATE STREAM polled (symbol STRING, price DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at
  PULL EVERY INTERVAL '1' SECOND;
CREATE TABLE holdings (account STRING, symbol STRING, shares DOUBLE, cost DOUBLE);

--- not linear: a static column under a function
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(GREATEST(q.price, h.cost)) AS value FROM quotes q JOIN holdings h USING (symbol)
  PRECISION value WITHIN 5;

--- not linear: a condition on a changing value
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes WHERE risk > 5 PRECISION value WITHIN 5;

--- not linear: a group by a changing value
CREATE CONTINUOUS QUERY total AS
  SELECT risk, MAX(price) AS high FROM quotes GROUP BY risk PRECISION high WITHIN 5;

--- a minimum that mixes a value with a static column
CREATE CONTINUOUS QUERY total AS
  SELECT MIN(ABS(q.price - h.cost)) AS gap FROM quotes q JOIN holdings h USING (symbol) PRECISION gap WITHIN 5;

--- no key
CREATE CONTINUOUS QUERY total AS SELECT AVG(price) AS mean FROM trades PRECISION mean WITHIN 5;

--- two streams
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(q.price - t.price) AS gap FROM quotes q JOIN trades t USING (symbol) PRECISION gap WITHIN 5;

--- another aggregate
CREATE CONTINUOUS QUERY total AS SELECT MEDIAN(price) AS middle FROM quotes PRECISION middle WITHIN 5;

--- another aggregate beside a minimum
CREATE CONTINUOUS QUERY total AS
  SELECT MIN(price) AS low_price, STDDEV(price) AS spread FROM quotes PRECISION low_price WITHIN 5;

--- two aggregates in one answer
CREATE CONTINUOUS QUERY total AS SELECT MAX(price) - MIN(price) AS span FROM quotes PRECISION span WITHIN 5;

--- distinct values of a sum
CREATE CONTINUOUS QUERY total AS SELECT SUM(DISTINCT price) AS value FROM quotes PRECISION value WITHIN 5;

--- exact only: HAVING
CREATE CONTINUOUS QUERY total AS
  SELECT symbol, SUM(price) AS value FROM quotes GROUP BY symbol HAVING SUM(price) > 5 PRECISION value WITHIN 5;

--- exact only: a window
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) OVER () AS value FROM quotes PRECISION value WITHIN 5;

--- no aggregate
CREATE CONTINUOUS QUERY total AS SELECT symbol, price FROM quotes PRECISION price WITHIN 5;

--- an unknown column
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes PRECISION valeu WITHIN 5;

--- a group column
CREATE CONTINUOUS QUERY total AS
  SELECT symbol, MIN(price) AS least FROM quotes GROUP BY symbol PRECISION symbol WITHIN 5;

--- no column with several answers
CREATE CONTINUOUS QUERY total AS
  SELECT MIN(price) AS least, AVG(price) AS mean FROM quotes PRECISION WITHIN 0.5%;

--- two bounds for one answer
CREATE CONTINUOUS QUERY total AS
  SELECT MIN(price) AS least, AVG(price) AS mean FROM quotes PRECISION mean WITHIN 5, mean WITHIN 1%;

--- twice
CREATE CONTINUOUS QUERY total AS
  SELECT AVG(price) AS mean FROM quotes PRECISION mean WITHIN 5 PRECISION mean WITHIN 6;

--- a negative bound
CREATE CONTINUOUS QUERY total AS SELECT AVG(price) AS mean FROM quotes PRECISION mean WITHIN -5;

--- a negative percentage
CREATE CONTINUOUS QUERY total AS SELECT AVG(price) AS mean FROM quotes PRECISION mean WITHIN -5%;

--- percent in words
CREATE CONTINUOUS QUERY total AS SELECT AVG(price) AS mean FROM quotes PRECISION mean WITHIN 5 PERCENT;

--- percent without a number
CREATE CONTINUOUS QUERY total AS SELECT AVG(price) AS mean FROM quotes PRECISION mean WITHIN %;

--- two percent signs
CREATE CONTINUOUS QUERY total AS SELECT AVG(price) AS mean FROM quotes PRECISION mean WITHIN 5%%;

--- no bound
CREATE CONTINUOUS QUERY total AS SELECT AVG(price) AS mean FROM quotes PRECISION mean;

--- no bound after WITHIN
CREATE CONTINUOUS QUERY total AS SELECT AVG(price) AS mean FROM quotes PRECISION mean WITHIN;

--- a minimum of strings
CREATE CONTINUOUS QUERY total AS SELECT MIN(name) AS first_name FROM quotes PRECISION first_name WITHIN 5;

--- a maximum of timestamps beside a number
CREATE CONTINUOUS QUERY total AS
  SELECT AVG(price) AS mean, MAX(at) AS last_seen FROM quotes PRECISION mean WITHIN 5;

--- a minimum of numbers made strings
CREATE CONTINUOUS QUERY total AS
  SELECT MIN(CAST(price AS STRING)) AS least FROM quotes PRECISION least WITHIN 5;

--- coherency beside it
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes PRECISION value WITHIN 5 COHERENCY value WITHIN 80;

--- fidelity beside it
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes PRECISION value WITHIN 5 FIDELITY 98%;

--- a pulled stream
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM polled PRECISION value WITHIN 5;

--- alter a query without it
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN 80;
ALTER CONTINUOUS QUERY total SET PRECISION value WITHIN 5;

--- alter to coherency
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes PRECISION value WITHIN 80;
ALTER CONTINUOUS QUERY total SET COHERENCY value WITHIN 5;

--- alter to a fidelity
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes PRECISION value WITHIN 80;
ALTER CONTINUOUS QUERY total SET FIDELITY 98%;

--- alter to an unknown column
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes PRECISION value WITHIN 80;
ALTER CONTINUOUS QUERY total SET PRECISION worth WITHIN 5;

--- a column called low
CREATE CONTINUOUS QUERY total AS SELECT symbol AS low, SUM(price) AS value FROM quotes GROUP BY symbol
  PRECISION value WITHIN 5;

--- the answer itself is called high
CREATE CONTINUOUS QUERY total AS SELECT MAX(price) AS high FROM quotes PRECISION high WITHIN 5;

--- a folded query is refused in its own words
CREATE CONTINUOUS QUERY one AS SELECT SUM(price) AS value FROM quotes WHERE risk > 5;
CREATE CONTINUOUS QUERY two AS SELECT SUM(price) AS value FROM quotes
  WHERE risk > 77 PRECISION value WITHIN 5;

--- an unknown method
SET filters = 'adaptiv';
