CREATE STREAM quotes (symbol STRING, price DOUBLE, risk DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at;
CREATE TABLE holdings (account STRING, symbol STRING, shares DOUBLE, cost DOUBLE);
CREATE STREAM other (symbol STRING, price DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at;
CREATE STREAM trades (symbol STRING, price DOUBLE, at TIMESTAMP) TIMESTAMP BY at;
CREATE TABLE options (symbol STRING, account STRING, strike DOUBLE, kind STRING);

--- a product of two streams
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(q.price * o.price) AS value FROM quotes q JOIN other o ON q.symbol = o.symbol COHERENCY value WITHIN 80;

--- an option's payoff
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(GREATEST(q.price - h.strike, 0)) AS value
  FROM quotes q JOIN options h ON q.symbol = h.symbol COHERENCY value WITHIN 80;

--- inside a longer expression
CREATE CONTINUOUS QUERY total AS
  SELECT h.account, SUM(2 * h.strike + 3 * ABS(q.price - h.strike) - q.risk) AS value
  FROM quotes q JOIN options h ON q.symbol = h.symbol GROUP BY h.account COHERENCY value WITHIN 80;

--- a CASE on a changing value with static columns
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(CASE WHEN q.price > h.strike THEN q.price - h.strike ELSE 0 END) AS value
  FROM quotes q JOIN options h ON q.symbol = h.symbol COHERENCY value WITHIN 80;

--- a CASE on a changing value alone, with static columns
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(CASE WHEN q.price > 5 THEN h.strike END) AS value
  FROM quotes q JOIN options h ON q.symbol = h.symbol COHERENCY value WITHIN 80;

--- IF on a changing value with static columns
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(IF(q.price > h.strike, 1, 0)) AS value
  FROM quotes q JOIN options h ON q.symbol = h.symbol COHERENCY value WITHIN 80;

--- a cast to int
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(CAST(q.price * h.shares AS INT)) AS value
  FROM quotes q JOIN holdings h ON q.symbol = h.symbol COHERENCY value WITHIN 80;

--- a division by a mixture
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(1 / (q.price + h.cost)) AS value
  FROM quotes q JOIN holdings h ON q.symbol = h.symbol COHERENCY value WITHIN 80;

--- a power
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(POWER(q.price, h.shares)) AS value
  FROM quotes q JOIN holdings h ON q.symbol = h.symbol COHERENCY value WITHIN 80;

--- coalesce with a static column
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(COALESCE(q.price, h.cost)) AS value
  FROM quotes q JOIN holdings h ON q.symbol = h.symbol COHERENCY value WITHIN 80;

--- a random weight
CREATE CONTINUOUS QUERY total AS SELECT SUM(price * RAND()) AS value FROM quotes COHERENCY value WITHIN 80;

--- the time of the query
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes WHERE symbol > CAST(CURRENT_DATE AS STRING) COHERENCY value WITHIN 80;

--- distinct
CREATE CONTINUOUS QUERY total AS SELECT SUM(DISTINCT price) AS value FROM quotes COHERENCY value WITHIN 80;

--- count distinct
CREATE CONTINUOUS QUERY total AS SELECT COUNT(DISTINCT symbol) AS n FROM quotes COHERENCY n WITHIN 1;

--- select distinct
CREATE CONTINUOUS QUERY total AS
  SELECT DISTINCT symbol, SUM(price) AS value FROM quotes GROUP BY symbol COHERENCY value WITHIN 80;

--- min
CREATE CONTINUOUS QUERY total AS SELECT MIN(price) AS low FROM quotes COHERENCY low WITHIN 80;

--- max beside a sum
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value, MAX(price) AS high FROM quotes COHERENCY value WITHIN 80;

--- standard deviation
CREATE CONTINUOUS QUERY total AS SELECT STDDEV(price) AS wobble FROM quotes COHERENCY wobble WITHIN 80;

--- a ratio of sums
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(h.shares * q.price) / SUM(h.shares) AS mean
  FROM quotes q JOIN holdings h ON q.symbol = h.symbol COHERENCY mean WITHIN 80;

--- a sum of sums
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) + SUM(risk) AS value FROM quotes COHERENCY value WITHIN 80;

--- a function of a sum
CREATE CONTINUOUS QUERY total AS SELECT SQRT(SUM(price)) AS value FROM quotes COHERENCY value WITHIN 80;

--- a rounded sum
CREATE CONTINUOUS QUERY total AS SELECT ROUND(SUM(price), 2) AS value FROM quotes COHERENCY value WITHIN 80;

--- having
CREATE CONTINUOUS QUERY total AS
  SELECT symbol, SUM(price) AS value FROM quotes GROUP BY symbol HAVING SUM(price) > 5 COHERENCY value WITHIN 80;

--- limit
CREATE CONTINUOUS QUERY total AS
  SELECT symbol, SUM(price) AS value FROM quotes GROUP BY symbol LIMIT 5 COHERENCY value WITHIN 80;

--- a window
CREATE CONTINUOUS QUERY total AS
  SELECT symbol, SUM(price) OVER (PARTITION BY symbol) AS value FROM quotes COHERENCY value WITHIN 80;

--- a subquery in WHERE
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes WHERE symbol IN (SELECT symbol FROM holdings) COHERENCY value WITHIN 80;

--- a scalar subquery
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) - (SELECT MAX(cost) FROM holdings) AS value FROM quotes COHERENCY value WITHIN 80;

--- an aggregate of an aggregate
CREATE CONTINUOUS QUERY total AS
  SELECT AVG(value) AS mean FROM (SELECT symbol, SUM(price) AS value FROM quotes GROUP BY symbol) t
  COHERENCY mean WITHIN 80;

--- a union
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes UNION ALL SELECT SUM(price) FROM other COHERENCY value WITHIN 80;

--- a left join to a stream
CREATE CONTINUOUS QUERY total AS
  SELECT h.account, SUM(q.price) AS value FROM holdings h LEFT JOIN quotes q ON q.symbol = h.symbol GROUP BY h.account
  COHERENCY value WITHIN 80;

--- a full join
CREATE CONTINUOUS QUERY total AS
  SELECT h.account, SUM(q.price) AS value FROM holdings h FULL JOIN quotes q ON q.symbol = h.symbol GROUP BY h.account
  COHERENCY value WITHIN 80;

--- a semi join
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes q LEFT SEMI JOIN holdings h ON q.symbol = h.symbol COHERENCY value WITHIN 80;

--- a sample
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes TABLESAMPLE (10 PERCENT) COHERENCY value WITHIN 80;

--- a self join
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(a.price - b.price) AS value FROM quotes a JOIN quotes b ON a.symbol = b.symbol COHERENCY value WITHIN 80;

--- a condition on a changing value
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM quotes WHERE risk > 3 COHERENCY value WITHIN 80;

--- a join on a changing value
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(q.price) AS value FROM quotes q JOIN holdings h ON q.symbol = h.symbol AND q.risk < h.cost
  COHERENCY value WITHIN 80;

--- a filter on a changing value
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) FILTER (WHERE risk > 3) AS value FROM quotes COHERENCY value WITHIN 80;

--- a condition on the event time
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(price) AS value FROM quotes WHERE at > TIMESTAMP '2024-01-01' COHERENCY value WITHIN 80;

--- a group by on a changing value
CREATE CONTINUOUS QUERY total AS
  SELECT risk, SUM(price) AS value FROM quotes GROUP BY risk COHERENCY value WITHIN 80;

--- a group by on a changing expression
CREATE CONTINUOUS QUERY total AS
  SELECT ROUND(risk) AS r, SUM(price) AS value FROM quotes GROUP BY ROUND(risk) COHERENCY value WITHIN 80;

--- an output that reads a changing value
CREATE CONTINUOUS QUERY total AS
  SELECT symbol, price, SUM(price) AS value FROM quotes GROUP BY symbol COHERENCY value WITHIN 80;

--- a column that is not grouped
CREATE CONTINUOUS QUERY total AS
  SELECT h.account, h.symbol, SUM(q.price) AS value FROM quotes q JOIN holdings h ON q.symbol = h.symbol
  GROUP BY h.account COHERENCY value WITHIN 80;

--- group by rollup
CREATE CONTINUOUS QUERY total AS
  SELECT symbol, SUM(price) AS value FROM quotes GROUP BY ROLLUP (symbol) COHERENCY value WITHIN 80;

--- an append-only stream
CREATE CONTINUOUS QUERY total AS SELECT SUM(price) AS value FROM trades COHERENCY value WITHIN 80;

--- no aggregate
CREATE CONTINUOUS QUERY total AS SELECT q.price FROM quotes q COHERENCY price WITHIN 80;

--- scales a count
CREATE CONTINUOUS QUERY total AS SELECT 100 * COUNT(price) AS n FROM quotes COHERENCY n WITHIN 80;

--- too many cases
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(
    CASE h.account WHEN 'a' THEN q.price WHEN 'b' THEN 2 * q.price WHEN 'c' THEN 3 * q.price ELSE 0 END
    + CASE h.account WHEN 'a' THEN q.price WHEN 'b' THEN 2 * q.price WHEN 'c' THEN 3 * q.price ELSE 0 END
    + CASE h.account WHEN 'a' THEN q.price WHEN 'b' THEN 2 * q.price WHEN 'c' THEN 3 * q.price ELSE 0 END
    + CASE h.account WHEN 'a' THEN q.price WHEN 'b' THEN 2 * q.price WHEN 'c' THEN 3 * q.price ELSE 0 END) AS value
  FROM quotes q JOIN holdings h ON q.symbol = h.symbol COHERENCY value WITHIN 80;

--- the same mistake after a query of the same shape
CREATE CONTINUOUS QUERY one AS SELECT SUM(GREATEST(q.price, h.strike)) AS value FROM quotes q JOIN options h USING (symbol)
  WHERE h.strike > 1000;
CREATE CONTINUOUS QUERY two AS
  SELECT SUM(GREATEST(q.price, h.strike)) AS value FROM quotes q JOIN options h USING (symbol) WHERE h.strike > 2 COHERENCY WITHIN 5;

--- too many values per key
CREATE CONTINUOUS QUERY total AS
  SELECT SUM(POWER(q.price, 0) + POWER(q.price, 1) + POWER(q.price, 2) + POWER(q.price, 3) + POWER(q.price, 4)
    + POWER(q.price, 5) + POWER(q.price, 6) + POWER(q.price, 7) + POWER(q.price, 8) + POWER(q.price, 9)
    + POWER(q.price, 10) + POWER(q.price, 11) + POWER(q.price, 12) + POWER(q.price, 13) + POWER(q.price, 14)
    + POWER(q.price, 15) + POWER(q.price, 16) + POWER(q.price, 17) + POWER(q.price, 18) + POWER(q.price, 19)
    + POWER(q.price, 20) + POWER(q.price, 21) + POWER(q.price, 22) + POWER(q.price, 23) + POWER(q.price, 24)
    + POWER(q.price, 25) + POWER(q.price, 26) + POWER(q.price, 27) + POWER(q.price, 28) + POWER(q.price, 29)
    + POWER(q.price, 30) + POWER(q.price, 31) + POWER(q.price, 32) + POWER(q.price, 33) + POWER(q.price, 34)
    + POWER(q.price, 35) + POWER(q.price, 36) + POWER(q.price, 37) + POWER(q.price, 38) + POWER(q.price, 39)
    + POWER(q.price, 40) + POWER(q.price, 41) + POWER(q.price, 42) + POWER(q.price, 43) + POWER(q.price, 44)
    + POWER(q.price, 45) + POWER(q.price, 46) + POWER(q.price, 47) + POWER(q.price, 48) + POWER(q.price, 49)
    + POWER(q.price, 50) + POWER(q.price, 51) + POWER(q.price, 52) + POWER(q.price, 53) + POWER(q.price, 54)
    + POWER(q.price, 55) + POWER(q.price, 56) + POWER(q.price, 57) + POWER(q.price, 58) + POWER(q.price, 59)
    + POWER(q.price, 60) + POWER(q.price, 61) + POWER(q.price, 62) + POWER(q.price, 63) + POWER(q.price, 64)) AS value
  FROM quotes q COHERENCY value WITHIN 80;
