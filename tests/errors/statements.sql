CREATE STREAM quotes (symbol STRING, price DOUBLE, risk DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at;
CREATE TABLE holdings (account STRING, symbol STRING, shares DOUBLE, cost DOUBLE);

--- create steam
CREATE STEAM s (a INT, b INT) KEY (a) TIMESTAMP BY b;

--- create streams
CREATE STREAMS s (a INT, b INT) KEY (a) TIMESTAMP BY b;

--- creat
CREAT STREAM s (a INT, b INT) TIMESTAMP BY b;

--- continuos
CREATE CONTINUOS QUERY total AS SELECT SUM(price) AS value FROM quotes;

--- continuous without query
CREATE CONTINUOUS total AS SELECT SUM(price) AS value FROM quotes;

--- queries
CREATE CONTINUOUS QUERIES total AS SELECT SUM(price) AS value FROM quotes;

--- as left out
CREATE CONTINUOUS QUERY total SELECT SUM(price) AS value FROM quotes;

--- the name left out
CREATE CONTINUOUS QUERY AS SELECT SUM(price) AS value FROM quotes;

--- the body left out
CREATE CONTINUOUS QUERY total AS;

--- the body left out before a clause
CREATE CONTINUOUS QUERY total AS COHERENCY value WITHIN 5;

--- not a select
CREATE CONTINUOUS QUERY total AS DROP TABLE holdings;

--- dorp
DORP CONTINUOUS QUERY total;

--- drop misspelt continuous
DROP CONTINOUS QUERY total;

--- shwo
SHWO STREAMS;

--- show misspelt streams
SHOW STREMS;

--- show queries
SHOW CONTINUOUS QUERY;

--- explian
EXPLIAN SELECT SUM(price) FROM quotes;

--- alter without set
ALTER CONTINUOUS QUERY total COHERENCY value WITHIN 5;

--- alter misspelt
ALTAR CONTINUOUS QUERY total SET COHERENCY value WITHIN 5;

--- alter misspelt clause
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes COHERENCY WITHIN 5;
ALTER CONTINUOUS QUERY total SET COHERENCE value WITHIN 5;

--- analyse
ANALYSE STREAM quotes;

--- refresh
REFRSH TABLE holdings;

--- create agregator
CREATE AGREGATOR d1 SERVES quotes (price) ('S1' WITHIN 0.5);

--- create table misspelt
CREATE TABEL t (a INT);

--- select misspelt
SELCT 1;

--- select misspelt in a query
CREATE CONTINUOUS QUERY total AS SELCT SUM(price) AS value FROM quotes;

--- no statement
hello world;

--- only a number
42;

--- a statement glued to the next
CREATE STREAM s (a INT, b INT) KEY (a) TIMESTAMP BY b
CREATE CONTINUOUS QUERY total AS SELECT SUM(a) FROM s;

--- two queries without a semicolon
CREATE CONTINUOUS QUERY one AS SELECT SUM(price) AS value FROM quotes COHERENCY WITHIN 5
CREATE CONTINUOUS QUERY two AS SELECT SUM(price) AS value FROM quotes;

--- two plain queries without a semicolon
CREATE CONTINUOUS QUERY one AS SELECT SUM(price) AS value FROM quotes
CREATE CONTINUOUS QUERY two AS SELECT SUM(price) AS value FROM quotes;
