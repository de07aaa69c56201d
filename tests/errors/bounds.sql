CREATE STREAM quotes (symbol STRING, price DOUBLE, risk DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at;
CREATE TABLE holdings (account STRING, symbol STRING, shares DOUBLE, cost DOUBLE);

--- negative
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN -80;

--- negative percent
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN -0.5%;

--- negative with a space
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN - 80;

--- NaN
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN NaN;

--- inf
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN inf;

--- too large
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN 1e999;

--- a string
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN '80';

--- a word
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN eighty;

--- a column
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN q.price FIDELITY 90%;

--- number and letters
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN 80ms;

--- two numbers
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN 80 90;

--- an expression
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN 80 + 1;

--- in parentheses
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN (80);

--- a currency
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN $80;

--- thousands
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN 1,000;

--- percent twice
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN 5%%;

--- percent in words
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN 5 PERCENT;

--- percent before the number
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN %5;

--- missing
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN;

--- missing before the next clause
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN FIDELITY 98%;

--- missing before a comma
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value, AVG(price) AS mean FROM quotes COHERENCY value WITHIN, mean WITHIN 5;

--- missing at the end
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY

--- nothing after coherency
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes q COHERENCY;

--- a comma at the end
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN 5,;

--- memory zero
CREATE CONTINUOUS QUERY total AS SELECT price FROM quotes MEMORY 0 ROWS;

--- memory with a fraction
CREATE CONTINUOUS QUERY total AS SELECT price FROM quotes MEMORY 1.5 ROWS;

--- aggregator
CREATE AGGREGATOR d1 SERVES quotes (price) ('S1' WITHIN -1);
