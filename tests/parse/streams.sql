--- clauses in any order
CREATE STREAM s (k STRING, v DOUBLE, t BIGINT)
  USING kafka OPTIONS (subscribe 'quotes', kafka.bootstrap.servers = 'localhost:9092', "startingOffsets" earliest, `max` 5)
  DELETE WHEN v < 0 OR (v > 5 AND k = 'x;y')
  SOURCE BY (k) LATENESS INTERVAL 1.5 HOURS TIMESTAMP BY t KEY (k);

--- without a key
CREATE STREAM events (v DOUBLE, at DATE) TIMESTAMP BY at;

--- several keys and sites
CREATE STREAM s (a INT, b INT, c INT, t INT) KEY (a, b) TIMESTAMP BY t SOURCE BY (a, c);

--- types
CREATE STREAM s (
  a DECIMAL(10, 2), b DOUBLE PRECISION, c ARRAY<INT>, d MAP<STRING, ARRAY<DOUBLE>>, e STRUCT<x: INT, y: STRUCT<z: DATE>>,
  f VARCHAR(20), g TIMESTAMP_NTZ, h INTERVAL DAY TO SECOND, i BINARY, t TIMESTAMP
) TIMESTAMP BY t;

--- intervals
CREATE STREAM a (t INT) TIMESTAMP BY t LATENESS INTERVAL '2' SECONDS;
CREATE STREAM b (t INT) TIMESTAMP BY t LATENESS INTERVAL 2 SECOND;
CREATE STREAM c (t INT) TIMESTAMP BY t LATENESS INTERVAL '2 seconds';
CREATE STREAM d (t INT) TIMESTAMP BY t LATENESS INTERVAL '1 hour 30 minutes';
CREATE STREAM e (t INT) TIMESTAMP BY t LATENESS INTERVAL "1.5" days;
CREATE STREAM f (t INT) TIMESTAMP BY t LATENESS INTERVAL '250' MILLISECONDS;
CREATE STREAM g (t INT) TIMESTAMP BY t LATENESS INTERVAL '1e3' microsecond;
CREATE STREAM h (t INT) TIMESTAMP BY t LATENESS INTERVAL 0 SECONDS;
CREATE STREAM i (t INT) TIMESTAMP BY t LATENESS INTERVAL 2 WEEKS KEY (k);

--- delete when, with every kind of part
CREATE STREAM s (k STRING, v DOUBLE, t INT) KEY (k) TIMESTAMP BY t
  DELETE WHEN v IS NULL OR CASE WHEN v > 5 THEN TRUE ELSE k IN ('a', "b;") END AND `k` LIKE '%using parquet%' /* ; */
  USING memory;

--- delete when a column is called key, using or options
CREATE STREAM s (key STRING, using DOUBLE, options INT, t INT) KEY (key) TIMESTAMP BY t
  DELETE WHEN key = 'x' AND using > 5 OR options IS NULL OR NOT using USING parquet;
