-- A thousand portfolios, each worth the sum of shares times price, while 25 stock prices move every second.
--
--   deadband run examples/portfolio.sql
--
-- Telling every owner every change of value is three million messages in 50 minutes. Nobody needs the value to the
-- cent; within $80 is fine. The clause COHERENCY says so, and what is sent drops to about one message in a hundred,
-- while no reported value is ever off by more than $80.

-- ---------------------------------------------------------------- made-up data, in plain Spark SQL

-- A number in (0, 1) and one from the normal distribution, the same in every run: they are made from a hash.
CREATE TEMPORARY FUNCTION uniform_of(seed STRING, a INT, b INT) RETURNS DOUBLE
  RETURN (pmod(xxhash64(seed, a, b), 1048576) + 0.5) / 1048576;

CREATE TEMPORARY FUNCTION normal_of(seed STRING, a INT, b INT) RETURNS DOUBLE
  RETURN sqrt(-2 * ln(uniform_of(concat(seed, ' radius'), a, b))) * cos(2 * pi() * uniform_of(concat(seed, ' angle'), a, b));

CREATE TEMPORARY VIEW stocks AS
  SELECT stock, format_string('S%02d', stock) AS symbol, 20 + 180 * uniform_of('first price', stock, 0) AS first_price,
         element_at(array('energy', 'health', 'industry', 'retail', 'software'), stock % 5 + 1) AS sector
  FROM (SELECT CAST(id AS INT) AS stock FROM range(1, 26));

-- 3,000 seconds of 25 prices. A step is part market, which moves all stocks alike, and part the stock's own.
CREATE TEMPORARY VIEW quote_history AS
  SELECT symbol, TIMESTAMP '2026-01-05 14:30:00' + make_dt_interval(0, 0, 0, second) AS at,
         round(first_price * exp(SUM(0.0002 * (0.6 * market + 0.8 * own)) OVER (PARTITION BY symbol ORDER BY second)), 2) AS price
  FROM (SELECT symbol, first_price, second, normal_of('market', second, 0) AS market, normal_of('own', second, stock) AS own
        FROM stocks CROSS JOIN (SELECT CAST(id AS INT) AS second FROM range(3000)));

-- 1,000 accounts hold about five stocks each, 1 to 200 shares of them.
CREATE TEMPORARY VIEW holdings AS
  SELECT format_string('A%04d', account) AS account, symbol, 1 + CAST(200 * uniform_of('shares', account, stock) AS INT) AS shares
  FROM stocks CROSS JOIN (SELECT CAST(id AS INT) AS account FROM range(1, 1001))
  WHERE uniform_of('holds', account, stock) < 0.2 OR stock = account % 25 + 1;

-- ---------------------------------------------------------------- the stream and the standing queries

-- Rows of the stream are updates: the latest row of a symbol is its price now. Rows with one `at` are one tick.
-- USING says where a replay reads them; any Spark source will do, and a table or view goes by its name.
CREATE STREAM quotes (symbol STRING, price DOUBLE, at TIMESTAMP)
  KEY (symbol)
  TIMESTAMP BY at
  USING table OPTIONS (name 'quote_history');

-- One statement, a thousand standing answers: each is reported when it has moved more than 80 since the last report.
CREATE CONTINUOUS QUERY portfolio AS
  SELECT h.account, SUM(h.shares * q.price) AS value
  FROM quotes q JOIN holdings h ON q.symbol = h.symbol
  GROUP BY h.account
  COHERENCY value WITHIN 80;

-- The average price of a sector to 0.1 % of what was last reported, in 98 % of the seconds of every 10 minutes:
-- brief spikes may pass unreported.
CREATE CONTINUOUS QUERY sectors AS
  SELECT s.sector, AVG(q.price) AS price
  FROM quotes q JOIN stocks s ON q.symbol = s.symbol
  GROUP BY s.sector
  COHERENCY price WITHIN 0.1% FIDELITY 98% OVER INTERVAL '10' MINUTES;

-- What is promised, what runs, and what it should cost by the history of the stream: compare `reported` in the estimate
-- with the messages in the report below.
EXPLAIN CONTINUOUS QUERY portfolio;
