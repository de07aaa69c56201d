CREATE STREAM quotes (symbol STRING, price DOUBLE, risk DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at;
CREATE TABLE holdings (account STRING, symbol STRING, shares DOUBLE, cost DOUBLE);

--- two commas
CREATE CONTINUOUS QUERY total AS SELECT symbol,, price FROM quotes;

--- a comma before FROM
CREATE CONTINUOUS QUERY total AS SELECT symbol, price, FROM quotes;

--- a comma before a parenthesis
CREATE CONTINUOUS QUERY total AS SELECT GREATEST(price, risk,) AS g FROM quotes;

--- a comma at the end of GROUP BY
CREATE CONTINUOUS QUERY total AS SELECT symbol, SUM(price) AS value FROM quotes GROUP BY symbol,;

--- a comma at the end of GROUP BY before a clause
CREATE CONTINUOUS QUERY total AS
  SELECT symbol, SUM(price) AS value FROM quotes GROUP BY symbol, COHERENCY value WITHIN 5;

--- no FROM
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value;

--- FROM misspelt
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FORM quotes;

--- WHERE misspelt
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes WERE symbol = 'a';

--- GROUP BY misspelt
CREATE CONTINUOUS QUERY total AS SELECT symbol, SUM(price) AS value FROM quotes GRUOP BY symbol;

--- GROUP without BY
CREATE CONTINUOUS QUERY total AS SELECT symbol, SUM(price) AS value FROM quotes GROUP symbol COHERENCY value WITHIN 5;

--- an operator without an operand
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes WHERE risk > ;

--- two operators
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes WHERE risk = = 3;

--- a join without a table
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes JOIN ON symbol = symbol;

--- CASE without END
CREATE CONTINUOUS QUERY total AS SELECT SUM(CASE WHEN risk > 3 THEN price) AS value FROM quotes;

--- an alias that is a number
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS 5 FROM quotes;

--- words after the end
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes q what is this;

--- two selects
CREATE CONTINUOUS QUERY total AS SELECT 1 FROM quotes SELECT 2 FROM quotes;

--- an unknown character
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) # 3 AS value FROM quotes;

--- unclosed (
CREATE CONTINUOUS QUERY total AS SELECT SUM(price AS value FROM quotes;

--- unclosed ( before a clause
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price AS value FROM quotes
  COHERENCY value WITHIN 5;

--- unclosed ( at the end
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes WHERE (symbol = 'a' OR (symbol = 'b')

--- unclosed ( in a stream
CREATE STREAM s (a INT, b INT KEY (a) TIMESTAMP BY b;

--- unclosed ( of a key
CREATE STREAM s (a INT, b INT) KEY (a TIMESTAMP BY b;

--- a ) too many
CREATE CONTINUOUS QUERY total AS SELECT SUM(price)) AS value FROM quotes;

--- a ) too many in a stream
CREATE STREAM s (a INT, b INT)) KEY (a) TIMESTAMP BY b;

--- unclosed '
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes WHERE symbol = 'a;

--- unclosed ' after an escape
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes WHERE symbol = 'it\'s;

--- unclosed "
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes WHERE symbol = "a;

--- unclosed `
CREATE CONTINUOUS QUERY total AS SELECT SUM(`price) AS value FROM quotes;

--- unclosed ` of a name
CREATE CONTINUOUS QUERY `total AS SELECT SUM(price) AS value FROM quotes;

--- unclosed comment
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) /* the value AS value FROM quotes;

--- unclosed comment before a statement
/* all of it
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes;

--- a string for a name
CREATE CONTINUOUS QUERY 'total' AS SELECT SUM(price) AS value FROM quotes;

--- a name with a dash
CREATE CONTINUOUS QUERY my-total AS SELECT SUM(price) AS value FROM quotes;

--- a name with a dot
CREATE CONTINUOUS QUERY my.total AS SELECT SUM(price) AS value FROM quotes;

--- a name that is a number
CREATE STREAM 5 (a INT, b INT) TIMESTAMP BY b;

--- a select of nothing but a stream
SELECT * FROM quotes;

--- a stream in an INSERT
INSERT INTO holdings SELECT 'x', symbol, price, 0 FROM quotes;

--- a view over a stream
CREATE VIEW v AS SELECT symbol FROM quotes;

--- a subquery that reads a stream
SELECT * FROM holdings WHERE symbol IN (SELECT symbol FROM Quotes);

--- an INSERT into a stream
INSERT INTO quotes VALUES ('a', 1, 2, NULL);

--- a table with the name of a stream
CREATE TABLE Quotes (a INT);

--- a query without a stream
CREATE CONTINUOUS QUERY total AS SELECT SUM(shares) AS value FROM holdings;

--- a query without any table
CREATE CONTINUOUS QUERY total AS SELECT 1 AS one;

--- a tab before the mistake
CREATE CONTINUOUS QUERY total AS
	SELECT SUM(price) AS value	FROM qotes;

--- a mistake after characters of two columns
CREATE CONTINUOUS QUERY total AS SELECT '値段' AS label, SUM(prce) AS value FROM quotes;

--- a mistake over several lines
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(GREATEST(q.price,
                      h.cost)) AS value
  FROM quotes q JOIN holdings h USING (symbol) COHERENCY value WITHIN 5;

--- a stream dropped as a table
DROP TABLE quotes;

--- a stream described
DESCRIBE quotes;
