CREATE STREAM quotes (symbol STRING, price DOUBLE, per DOUBLE, risk DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at;
CREATE STREAM demand (id INT, symbol STRING, price DOUBLE, at TIMESTAMP) KEY (id) TIMESTAMP BY at;
CREATE TABLE holdings (account STRING, symbol STRING, shares DOUBLE, cost DOUBLE, sector STRING);
CREATE TABLE subs (id INT, lo DOUBLE, hi DOUBLE);

--- one feature, weights from a table
EXPLAIN (VERBOSE) SELECT h.account, SUM(h.shares * q.price) AS v FROM quotes q JOIN holdings h USING (symbol)
  GROUP BY h.account COHERENCY v WITHIN 1;

--- a constant: both parts count only where nothing is NULL
EXPLAIN (VERBOSE) SELECT SUM(h.shares * (q.price - h.cost)) AS v FROM quotes q JOIN holdings h USING (symbol) COHERENCY v WITHIN 1;

--- CASE over static columns
EXPLAIN (VERBOSE) SELECT SUM(CASE h.sector WHEN 'tech' THEN 2 * q.price WHEN 'bank' THEN -q.price ELSE 0 END) AS v
  FROM quotes q JOIN holdings h USING (symbol) COHERENCY v WITHIN 1;

--- several aggregates share features
EXPLAIN (VERBOSE) SELECT SUM(price) AS v, AVG(price - risk) AS m, COUNT(price) AS n, COUNT(*) AS rows FROM quotes
  COHERENCY v WITHIN 1, m WITHIN 2;

--- FILTER
EXPLAIN (VERBOSE) SELECT SUM(q.price) FILTER (WHERE h.sector = 'tech') AS v FROM quotes q JOIN holdings h USING (symbol)
  COHERENCY v WITHIN 1;

--- COALESCE, scale and offset
EXPLAIN (VERBOSE) SELECT 10 - COALESCE(SUM(price) / 4, 3) * 2 AS v FROM quotes COHERENCY v WITHIN 1;

--- negative and zero weights
EXPLAIN (VERBOSE) SELECT SUM(-h.shares * q.price + 0 * q.risk) AS v FROM quotes q JOIN holdings h USING (symbol)
  COHERENCY v WITHIN 1;

--- products and functions of one row
EXPLAIN (VERBOSE) SELECT SUM(h.shares * q.price * q.risk + GREATEST(q.price, q.per)) AS v
  FROM quotes q JOIN holdings h USING (symbol) COHERENCY v WITHIN 1;

--- divisions
EXPLAIN (VERBOSE) SELECT SUM(q.price / h.shares + h.cost / q.per) AS v FROM quotes q JOIN holdings h USING (symbol)
  COHERENCY v WITHIN 1;

--- a left join keeps items without a match
EXPLAIN (VERBOSE) SELECT h.account, SUM(COALESCE(h.shares, 1) * q.price) AS v
  FROM quotes q LEFT JOIN holdings h ON q.symbol = h.symbol AND h.cost > 5 GROUP BY h.account COHERENCY v WITHIN 1;

--- groups by expressions and by the key
EXPLAIN (VERBOSE) SELECT UPPER(h.sector) AS s, q.symbol, SUM(q.price) AS v FROM quotes q JOIN holdings h USING (symbol)
  GROUP BY UPPER(h.sector), q.symbol COHERENCY v WITHIN 1;
