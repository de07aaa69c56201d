-- every keyword as a name, wherever SQL allows a name

--- columns of a stream
CREATE STREAM stream (
  key STRING, stream STRING, timestamp STRING, lateness INT, source INT, delete INT, pull INT, using INT, options INT,
  coherency DOUBLE, precision DOUBLE, fidelity DOUBLE, response DOUBLE, notify DOUBLE, memory DOUBLE, emit DOUBLE,
  into DOUBLE, within DOUBLE, rows INT, over INT, interval INT, by INT, every INT, when INT, as INT, set INT, at TIMESTAMP
) KEY (key, stream) TIMESTAMP BY at SOURCE BY (source, by);

--- names of statements
CREATE STREAM if (a INT) TIMESTAMP BY a;
CREATE CONTINUOUS QUERY query AS SELECT 1;
CREATE CONTINUOUS QUERY as AS SELECT 1;
ALTER CONTINUOUS QUERY set SET COHERENCY WITHIN 1;
DROP STREAM stream;
EXPLAIN CONTINUOUS QUERY query;
ANALYZE STREAM from FROM from;

--- select
CREATE CONTINUOUS QUERY q AS
  SELECT precision, coherency, fidelity, response, notify, memory, emit, into, within, key, stream, options, timestamp
  FROM stream;

--- qualified
CREATE CONTINUOUS QUERY q AS
  SELECT s.precision, s.coherency, s.fidelity, s.memory, s.response, s.notify, s.emit, s.into, s.within FROM stream s;

--- in expressions
CREATE CONTINUOUS QUERY q AS
  SELECT SUM(precision * within + memory / fidelity - response % notify) AS value FROM stream
  WHERE coherency OR within > 5 AND precision < 3 AND NOT memory AND emit BETWEEN into AND fidelity
    AND precision IN (within, 5) AND into IS NULL AND into LIKE 'x' AND memory = fidelity;

--- in a case
CREATE CONTINUOUS QUERY q AS
  SELECT CASE notify WHEN 1 THEN precision WHEN within THEN notify WHEN 3 THEN a + notify WHEN 4 THEN coherency ELSE into END
  FROM stream NOTIFY WHEN notify > 5;

--- in group by and order by
CREATE CONTINUOUS QUERY q AS
  SELECT precision, SUM(within) AS memory FROM stream GROUP BY precision, fidelity, into
  ORDER BY into DESC, memory ASC, coherency NULLS FIRST, precision
  COHERENCY memory WITHIN 5;

--- group by a clause word, then a clause without a column
CREATE CONTINUOUS QUERY q AS SELECT SUM(v) AS v FROM stream GROUP BY precision COHERENCY WITHIN 5;
CREATE CONTINUOUS QUERY q AS SELECT SUM(v) AS v FROM stream GROUP BY coherency PRECISION WITHIN 5;
CREATE CONTINUOUS QUERY q AS SELECT SUM(v) AS v FROM stream GROUP BY a, emit EMIT EVERY INTERVAL '1' HOUR;
CREATE CONTINUOUS QUERY q AS SELECT SUM(v) AS v FROM stream ORDER BY into INTO csv;
CREATE CONTINUOUS QUERY q AS SELECT SUM(v) AS v FROM stream WHERE memory MEMORY 5 ROWS;

--- aliases with AS
CREATE CONTINUOUS QUERY q AS
  SELECT a AS precision, b AS coherency, c AS fidelity, d AS memory, e AS into, f AS emit, g AS within, h AS notify
  FROM stream AS memory JOIN t AS coherency ON memory.a = coherency.a;

--- aliases without AS
CREATE CONTINUOUS QUERY q AS
  SELECT a precision, b coherency, c fidelity, d memory, response within, coherency within, emit every, g emit FROM stream;

--- tables
CREATE CONTINUOUS QUERY q AS
  SELECT 1 FROM precision JOIN memory ON precision.a = memory.a, coherency within, fidelity, into LEFT JOIN emit USING (a);

--- a table alias at the end
CREATE CONTINUOUS QUERY q AS SELECT within.a FROM coherency within;
CREATE CONTINUOUS QUERY q AS SELECT within.a FROM coherency within WHERE within.a > 5 COHERENCY a WITHIN 2;
CREATE CONTINUOUS QUERY q AS SELECT memory.a FROM stream memory;

--- the bounded column
CREATE CONTINUOUS QUERY q AS SELECT SUM(a) AS within FROM stream COHERENCY within WITHIN 5;
CREATE CONTINUOUS QUERY q AS SELECT SUM(a) AS coherency FROM stream COHERENCY coherency WITHIN 5;
CREATE CONTINUOUS QUERY q AS SELECT SUM(a) AS precision FROM stream COHERENCY precision WITHIN 5, memory WITHIN 2;
CREATE CONTINUOUS QUERY q AS SELECT SUM(a) AS `and` FROM stream PRECISION `and` WITHIN 5, within WITHIN 1, into WITHIN 2;

--- double precision
CREATE CONTINUOUS QUERY q AS
  SELECT SUM(CAST(a AS DOUBLE PRECISION)) AS v, CAST(b AS DOUBLE PRECISION) AS precision FROM stream PRECISION v WITHIN 5;

--- in subqueries and functions
CREATE CONTINUOUS QUERY q AS
  SELECT precision FROM (SELECT memory AS precision, coalesce(coherency, within, 5) AS within FROM stream) fidelity
  WHERE EXISTS (SELECT 1 FROM stream WHERE response = memory) COHERENCY WITHIN 5;

--- windows
CREATE CONTINUOUS QUERY q AS
  SELECT SUM(a) OVER (PARTITION BY memory ORDER BY precision ROWS BETWEEN 5 PRECEDING AND CURRENT ROW) AS over FROM stream;
