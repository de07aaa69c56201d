CREATE STREAM quotes (symbol STRING, price DOUBLE, per DOUBLE, risk DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at;
CREATE STREAM demand (id INT, symbol STRING, price DOUBLE, at TIMESTAMP) KEY (id) TIMESTAMP BY at;
CREATE TABLE holdings (account STRING, symbol STRING, shares DOUBLE, cost DOUBLE, sector STRING);
CREATE TABLE subs (id INT, lo DOUBLE, hi DOUBLE);

CREATE CONTINUOUS QUERY portfolio AS
  SELECT h.account, SUM(h.shares * q.price) AS value
  FROM quotes q JOIN holdings h ON q.symbol = h.symbol
  WHERE h.sector <> 'a "quoted" <b>'
  GROUP BY h.account
  COHERENCY value WITHIN 80;

--- text
EXPLAIN CONTINUOUS QUERY portfolio;

--- verbose
EXPLAIN (VERBOSE) CONTINUOUS QUERY portfolio;

--- json
EXPLAIN (FORMAT JSON) CONTINUOUS QUERY portfolio;

--- mermaid
EXPLAIN (FORMAT MERMAID) CONTINUOUS QUERY portfolio;

--- html
EXPLAIN (FORMAT HTML) CONTINUOUS QUERY portfolio;

--- any case, in another order
explain (verbose, format mermaid) continuous query PORTFOLIO;
