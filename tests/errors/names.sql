CREATE STREAM quotes (symbol STRING, price DOUBLE, risk DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at;
CREATE TABLE holdings (account STRING, symbol STRING, shares DOUBLE, cost DOUBLE);

--- column
CREATE CONTINUOUS QUERY total AS SELECT SUM(prise) AS value FROM quotes;

--- column with an alias
CREATE CONTINUOUS QUERY total AS
  SELECT h.account, SUM(h.shars * q.price) AS value
  FROM quotes q JOIN holdings h ON q.symbol = h.symbol GROUP BY h.account;

--- column in WHERE
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes WHERE symbl = 'a';

--- column in GROUP BY
CREATE CONTINUOUS QUERY total AS
  SELECT h.account, SUM(q.price) AS value FROM quotes q JOIN holdings h ON q.symbol = h.symbol GROUP BY h.acount;

--- column in ON
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(q.price) AS value FROM quotes q JOIN holdings h ON q.symbol = h.symbool;

--- column in ORDER BY
CREATE CONTINUOUS QUERY total AS SELECT symbol, price FROM quotes ORDER BY prize;

--- column in USING
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes JOIN holdings USING (symbl);

--- column in a subquery
CREATE CONTINUOUS QUERY total AS SELECT SUM(p) AS value FROM (SELECT prce AS p FROM quotes) t;

--- column of a subquery
CREATE CONTINUOUS QUERY total AS SELECT SUM(t.prce) AS value FROM (SELECT price FROM quotes) t;

--- column of a CTE
CREATE CONTINUOUS QUERY total AS WITH t AS (SELECT price AS p FROM quotes) SELECT SUM(t.price) AS value FROM t;

--- column of a correlated subquery
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes q WHERE EXISTS (SELECT 1 FROM holdings h WHERE h.symbol = q.symbl);

--- a CTE that hides a stream
CREATE CONTINUOUS QUERY total AS WITH quotes AS (SELECT 2 * price AS p FROM quotes) SELECT SUM(p) AS value FROM quotes;

--- nothing near
CREATE CONTINUOUS QUERY total AS SELECT SUM(zzz) AS value FROM quotes;

--- ambiguous column
CREATE CONTINUOUS QUERY total AS SELECT symbol FROM quotes, holdings;

--- unknown alias
CREATE CONTINUOUS QUERY total AS SELECT SUM(x.price) AS value FROM quotes q;

--- stream by its name after an alias
CREATE CONTINUOUS QUERY total AS SELECT SUM(quotes.price) AS value FROM quotes q;

--- two relations with one alias
CREATE CONTINUOUS QUERY total AS SELECT SUM(q.price) AS value FROM quotes q, holdings q;

--- stream
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM qoutes;

--- stream in a join
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(q.price) AS value FROM holdings h JOIN Quots q ON q.symbol = h.symbol;

--- table
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(q.price) AS value FROM quotes q JOIN holding h ON q.symbol = h.symbol;

--- nothing near for a table
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM elsewhere;

--- table in a database
CREATE CONTINUOUS QUERY total AS SELECT SUM(q.price) AS value FROM quotes q JOIN main.holdings h USING (symbol);

--- columns that could belong to several tables
CREATE TABLE sectors USING csv OPTIONS (path 'sectors.csv');
CREATE TABLE regions USING csv OPTIONS (path 'regions.csv');
CREATE CONTINUOUS QUERY total AS SELECT weight, SUM(price) AS value FROM quotes, sectors, regions GROUP BY weight;

--- star of an unknown table
CREATE TABLE sectors USING csv OPTIONS (path 'sectors.csv');
CREATE CONTINUOUS QUERY total AS SELECT * FROM quotes q JOIN sectors s ON q.symbol = s.symbol;

--- alias of another output
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value, valeu + 1 AS more FROM quotes;

--- refresh
REFRESH TABLE holdngs;

--- refresh of a stream
REFRESH TABLE quotes;

--- output names twice
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value, AVG(price) AS Value FROM quotes COHERENCY value WITHIN 5;

--- reserved output name
CREATE CONTINUOUS QUERY total AS SELECT symbol AS ts, price FROM quotes;
