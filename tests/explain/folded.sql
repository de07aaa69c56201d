CREATE STREAM quotes (symbol STRING, price DOUBLE, per DOUBLE, risk DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at;
CREATE STREAM demand (id INT, symbol STRING, price DOUBLE, at TIMESTAMP) KEY (id) TIMESTAMP BY at;
CREATE TABLE holdings (account STRING, symbol STRING, shares DOUBLE, cost DOUBLE, sector STRING);
CREATE TABLE subs (id INT, lo DOUBLE, hi DOUBLE);

CREATE CONTINUOUS QUERY tech AS SELECT SUM(h.shares * q.price) AS v FROM quotes q JOIN holdings h USING (symbol)
  WHERE h.sector = 'tech' AND h.cost > 5 COHERENCY v WITHIN 10;
CREATE CONTINUOUS QUERY bank AS SELECT SUM(h.shares * q.price) AS v FROM quotes q JOIN holdings h USING (symbol)
  WHERE h.sector = 'bank' AND h.cost > 7 COHERENCY v WITHIN 20;
CREATE CONTINUOUS QUERY low AS SELECT MIN(per) AS m FROM quotes WHERE risk BETWEEN 1 AND 2.5;
CREATE CONTINUOUS QUERY high AS SELECT MIN(per) AS m FROM quotes WHERE risk BETWEEN 3 AND 4.5;

--- the first of a group
EXPLAIN (VERBOSE) CONTINUOUS QUERY tech;

--- another one, with its own bound and literals
EXPLAIN CONTINUOUS QUERY bank;

--- the ranges are its own
EXPLAIN CONTINUOUS QUERY high;
