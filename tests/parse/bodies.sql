--- nested subqueries
CREATE CONTINUOUS QUERY q AS
  SELECT (SELECT MAX(a) FROM (SELECT a FROM (SELECT (a) FROM s) t) u) AS m FROM s WHERE ((a)) IN (((1)), (2))
  COHERENCY m WITHIN 5;

--- common table expressions
CREATE CONTINUOUS QUERY q AS
  WITH a AS (SELECT k, v FROM s), b (x, y) AS (SELECT * FROM a WHERE v > 0)
  SELECT x, SUM(y) AS y FROM b GROUP BY x
  COHERENCY y WITHIN 5;

--- unicode
CREATE STREAM días (größe DOUBLE, 値段 DOUBLE, ключ STRING, at TIMESTAMP) KEY (ключ) TIMESTAMP BY at;
CREATE CONTINUOUS QUERY übersicht AS SELECT SUM(größe * 値段) AS größe_値段 FROM días COHERENCY größe_値段 WITHIN 5;

--- backticks
CREATE STREAM `a stream; (` (`key`` with` STRING, `select` DOUBLE, `at` TIMESTAMP) KEY (`key`` with`) TIMESTAMP BY `at`;
CREATE CONTINUOUS QUERY `my-query` AS SELECT SUM(`select`) AS `my sum` FROM `a stream; (` COHERENCY `my sum` WITHIN 5;

--- percent against modulo
CREATE CONTINUOUS QUERY q AS SELECT SUM(a % 5) AS v, SUM(b%fidelity) AS w FROM s WHERE a % 2 = 0 AND b %3=1 GROUP BY a % 7
  COHERENCY v WITHIN 5%, w WITHIN 10 FIDELITY 98 %;

--- operators
CREATE CONTINUOUS QUERY q AS
  SELECT a <=> b, a || b, a & b | ~c ^ d, a <> b, a != b, NOT a, a[0], m['k'], s.f.g, x -> x + 1, a::INT, ! a FROM s;

--- set operations
CREATE CONTINUOUS QUERY q AS SELECT a FROM s UNION ALL (SELECT a FROM t) EXCEPT SELECT a FROM u COHERENCY WITHIN 5;

--- a body in parentheses
CREATE CONTINUOUS QUERY q AS (SELECT a FROM s) COHERENCY WITHIN 5;
CREATE CONTINUOUS QUERY q AS ((SELECT a FROM s));

--- many brackets
CREATE CONTINUOUS QUERY q AS SELECT ((((((((((((((((((((((((((((((a)))))))))))))))))))))))))))))) FROM s COHERENCY WITHIN 5;
