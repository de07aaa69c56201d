CREATE TABLE holdings (account STRING, symbol STRING, shares DOUBLE, cost DOUBLE);

--- an unknown type
CREATE STREAM s (a STRIN, b INT) KEY (a) TIMESTAMP BY b;

--- a type nobody knows
CREATE STREAM s (a MONEY, b INT) KEY (a) TIMESTAMP BY b;

--- a type with bad arguments
CREATE STREAM s (a DECIMAL(x), b INT) KEY (a) TIMESTAMP BY b;

--- a column without a type
CREATE STREAM s (a, b INT) KEY (a) TIMESTAMP BY b;

--- a column that must not be null
CREATE STREAM s (a INT NOT NULL, b INT) KEY (a) TIMESTAMP BY b;

--- a column declared twice
CREATE STREAM s (a INT, b INT, A STRING) KEY (a) TIMESTAMP BY b;

--- a reserved column
CREATE STREAM s (a INT, __tick INT) KEY (a) TIMESTAMP BY __tick;

--- no columns
CREATE STREAM s () TIMESTAMP BY b;

--- columns left out
CREATE STREAM s KEY (a) TIMESTAMP BY b;

--- a comma at the end of the columns
CREATE STREAM s (a INT, b INT,) KEY (a) TIMESTAMP BY b;

--- a key on an unknown column
CREATE STREAM s (symbol INT, b INT) KEY (symbl) TIMESTAMP BY b;

--- a key column twice
CREATE STREAM s (a INT, c INT, b INT) KEY (a, c, a) TIMESTAMP BY b;

--- a key without parentheses
CREATE STREAM s (a INT, b INT) KEY a TIMESTAMP BY b;

--- the event time in the key
CREATE STREAM s (a INT, b INT) KEY (a, b) TIMESTAMP BY b;

--- no event time
CREATE STREAM s (a INT, b INT) KEY (a);

--- an unknown event time
CREATE STREAM s (a INT, time INT) KEY (a) TIMESTAMP BY tmie;

--- an event time of type STRING
CREATE STREAM s (a INT, at STRING) KEY (a) TIMESTAMP BY at;

--- an event time of type BOOLEAN
CREATE STREAM s (a INT, at BOOLEAN) KEY (a) TIMESTAMP BY at;

--- an event time that is an interval
CREATE STREAM s (a INT, at INTERVAL) KEY (a) TIMESTAMP BY at;

--- a site on an unknown column
CREATE STREAM s (a INT, exchange STRING, b INT) KEY (a) TIMESTAMP BY b SOURCE BY (exchnge);

--- delete when without a key
CREATE STREAM s (a INT, b INT) TIMESTAMP BY b DELETE WHEN a IS NULL;

--- delete when an unknown column
CREATE STREAM s (a INT, price INT, b INT) KEY (a) TIMESTAMP BY b DELETE WHEN prise IS NULL;

--- delete when with an aggregate
CREATE STREAM s (a INT, b INT) KEY (a) TIMESTAMP BY b DELETE WHEN SUM(a) > 5;

--- delete when with a subquery
CREATE STREAM s (a INT, b INT) KEY (a) TIMESTAMP BY b DELETE WHEN a IN (SELECT shares FROM holdings);

--- delete when not valid
CREATE STREAM s (a INT, b INT) KEY (a) TIMESTAMP BY b DELETE WHEN a IS IS NULL;

--- delete when nothing
CREATE STREAM s (a INT, b INT) KEY (a) TIMESTAMP BY b DELETE WHEN;

--- delete when of another relation
CREATE STREAM s (a INT, b INT) KEY (a) TIMESTAMP BY b DELETE WHEN h.a IS NULL;

--- delete when not a condition
CREATE STREAM s (a INT, b INT) KEY (a) TIMESTAMP BY b DELETE WHEN a + 1;

--- declared twice
CREATE STREAM s (a INT, b INT) KEY (a) TIMESTAMP BY b;
CREATE STREAM S (a INT, b INT) KEY (a) TIMESTAMP BY b;

--- with the name of a table
CREATE STREAM holdings (a INT, b INT) KEY (a) TIMESTAMP BY b;

--- using without a format
CREATE STREAM s (a INT, b INT) KEY (a) TIMESTAMP BY b USING OPTIONS (path 'x');

--- options without using
CREATE STREAM s (a INT, b INT) KEY (a) TIMESTAMP BY b OPTIONS (path 'x');

--- options without parentheses
CREATE STREAM s (a INT, b INT) KEY (a) TIMESTAMP BY b USING parquet OPTIONS path 'x';

--- an option twice
CREATE STREAM s (a INT, b INT) KEY (a) TIMESTAMP BY b USING parquet OPTIONS (path 'x', PATH 'y');

--- an unknown unit
CREATE STREAM s (a INT, b INT) TIMESTAMP BY b LATENESS INTERVAL '2' SECNDS;

--- a unit without a fixed length
CREATE STREAM s (a INT, b INT) TIMESTAMP BY b LATENESS INTERVAL '2' MONTHS;

--- no unit
CREATE STREAM s (a INT, b INT) TIMESTAMP BY b LATENESS INTERVAL '2';

--- a unit that is a clause
CREATE STREAM s (a INT, b INT) TIMESTAMP BY b LATENESS INTERVAL 2 KEY (a);

--- no amount
CREATE STREAM s (a INT, b INT) TIMESTAMP BY b LATENESS INTERVAL SECONDS;

--- an amount that is not a number
CREATE STREAM s (a INT, b INT) TIMESTAMP BY b LATENESS INTERVAL 'two' SECONDS;

--- a negative amount
CREATE STREAM s (a INT, b INT) TIMESTAMP BY b LATENESS INTERVAL '-2' SECONDS;

--- an endless amount
CREATE STREAM s (a INT, b INT) TIMESTAMP BY b LATENESS INTERVAL '1e400' SECONDS;

--- lateness as a number
CREATE STREAM s (a INT, b INT) TIMESTAMP BY b LATENESS 2;

--- a unit twice
CREATE STREAM s (a INT, b INT) TIMESTAMP BY b LATENESS INTERVAL '2 seconds' MINUTES;

--- pulled every nothing
CREATE STREAM s (a INT, b INT) KEY (a) TIMESTAMP BY b PULL EVERY INTERVAL '0' SECONDS;

--- different kinds of event time
CREATE STREAM s (a INT, x DOUBLE, b INT) KEY (a) TIMESTAMP BY b;
CREATE STREAM t (a INT, x DOUBLE, at TIMESTAMP) KEY (a) TIMESTAMP BY at;
CREATE CONTINUOUS QUERY pairs AS SELECT s.x, t.x AS y FROM s JOIN t ON s.a = t.a;

--- different kinds of event time, nested
CREATE STREAM s (a INT, x DOUBLE, b BIGINT) KEY (a) TIMESTAMP BY b;
CREATE STREAM t (a INT, x DOUBLE, at DATE) KEY (a) TIMESTAMP BY at;
CREATE CONTINUOUS QUERY pairs AS SELECT x FROM s WHERE a IN (SELECT a FROM t);

--- a date and a timestamp
CREATE STREAM s (a INT, x DOUBLE, b DATE) KEY (a) TIMESTAMP BY b;
CREATE STREAM t (a INT, x DOUBLE, at TIMESTAMP) KEY (a) TIMESTAMP BY at;
CREATE CONTINUOUS QUERY pairs AS SELECT x FROM s UNION ALL SELECT x FROM t;
