CREATE STREAM quotes (symbol STRING, price DOUBLE, per DOUBLE, risk DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at;
CREATE STREAM demand (id INT, symbol STRING, price DOUBLE, at TIMESTAMP) KEY (id) TIMESTAMP BY at;
CREATE TABLE holdings (account STRING, symbol STRING, shares DOUBLE, cost DOUBLE, sector STRING);
CREATE TABLE subs (id INT, lo DOUBLE, hi DOUBLE);

--- LinearAggregate
EXPLAIN SELECT h.account, SUM(h.shares * q.price) AS value FROM quotes q JOIN holdings h USING (symbol) GROUP BY h.account;

--- ExtremumAggregate
EXPLAIN SELECT h.account, MAX(q.price) AS high FROM quotes q JOIN holdings h USING (symbol) GROUP BY h.account;

--- RangeAggregate
EXPLAIN SELECT s.id, MIN(q.per) AS per FROM subs s JOIN quotes q ON q.risk BETWEEN s.lo AND s.hi GROUP BY s.id;

--- RangeSelect
EXPLAIN SELECT symbol, price FROM quotes WHERE risk BETWEEN 1 AND 2 AND price > 100;

--- BandJoin
EXPLAIN SELECT s.id, q.symbol, d.id AS demand
  FROM quotes q, demand d, subs s WHERE q.price - d.price BETWEEN s.lo AND s.hi AND q.risk < s.hi;

--- SelectJoin
EXPLAIN SELECT s.id, q.symbol, d.id AS demand
  FROM quotes q JOIN demand d ON q.symbol = d.symbol JOIN subs s ON q.risk > s.lo AND d.price < s.hi;

--- EquiJoin
EXPLAIN SELECT q.symbol, q.price, d.id FROM quotes q JOIN demand d ON q.symbol = d.symbol;

--- Exact
EXPLAIN SELECT symbol, SUM(price) AS value FROM quotes GROUP BY symbol HAVING SUM(price) > 100;

--- Exact, of several queries
EXPLAIN SELECT symbol FROM quotes UNION ALL SELECT symbol FROM demand;

--- Exact, no aggregate and no condition
EXPLAIN SELECT symbol, 2 * price AS twice FROM quotes;
