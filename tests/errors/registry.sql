CREATE STREAM quotes (symbol STRING, price DOUBLE, risk DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at;
CREATE TABLE holdings (account STRING, symbol STRING, shares DOUBLE, cost DOUBLE);
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY value WITHIN 5;

--- a query twice
CREATE CONTINUOUS QUERY Total AS SELECT SUM(risk) AS value FROM quotes;

--- a stream twice
CREATE STREAM quotes (a INT, b INT) KEY (a) TIMESTAMP BY b;

--- drop a stream that is read
DROP STREAM quotes;

--- drop a stream that many read
CREATE CONTINUOUS QUERY b AS SELECT SUM(price) AS value FROM quotes;
CREATE CONTINUOUS QUERY c AS SELECT SUM(risk) AS value FROM quotes;
CREATE CONTINUOUS QUERY d AS SELECT AVG(risk) AS value FROM quotes;
DROP STREAM quotes;

--- drop an unknown stream
DROP STREAM qotes;

--- drop a table as a stream
DROP STREAM holdings;

--- drop an unknown query
DROP CONTINUOUS QUERY totl;

--- drop a query that is gone
DROP CONTINUOUS QUERY total;
DROP CONTINUOUS QUERY total;

--- alter an unknown query
ALTER CONTINUOUS QUERY totale SET COHERENCY value WITHIN 4;

--- alter a clause that is absent
ALTER CONTINUOUS QUERY total SET PRECISION value WITHIN 4;

--- alter a query without clauses
CREATE CONTINUOUS QUERY plain AS SELECT SUM(price) AS value FROM quotes;
ALTER CONTINUOUS QUERY plain SET COHERENCY value WITHIN 4;

--- alter a column that is absent
ALTER CONTINUOUS QUERY total SET COHERENCY price WITHIN 4;

--- alter the body
ALTER CONTINUOUS QUERY total SET SELECT 1;

--- alter two clauses
ALTER CONTINUOUS QUERY total SET COHERENCY value WITHIN 4 FIDELITY 98%;

--- alter without a clause
ALTER CONTINUOUS QUERY total SET;

--- an unknown setting
SET splt = 'naive';

--- a setting nobody knows
SET colour = 'red';

--- an unknown value
SET split = 'naiv';

--- a value nobody knows
SET filters = 42;

--- a value without quotes
SET split = min-cost;

--- a setting without a value
SET split = ;

--- explain an unknown query
EXPLAIN CONTINUOUS QUERY totl;

--- explain a name alone
EXPLAIN total;

--- explain an unknown format
EXPLAIN (FORMAT YAML) CONTINUOUS QUERY total;

--- explain a misspelt format
EXPLAIN (FORMAT JSN) CONTINUOUS QUERY total;

--- explain a misspelt option
EXPLAIN (FORMAT JSON, VERBOS) CONTINUOUS QUERY total;

--- explain format without parentheses
EXPLAIN FORMAT JSON CONTINUOUS QUERY total;

--- explain a stream
EXPLAIN CREATE STREAM s (a INT, b INT) TIMESTAMP BY b;

--- explain nothing
EXPLAIN;

--- explain a plain query
EXPLAIN SELECT * FROM holdings;

--- explain a mistake
EXPLAIN SELECT SUM(prce) FROM quotes;
