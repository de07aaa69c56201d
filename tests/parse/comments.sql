--- between statements
-- first; not ( a statement
/* nor 'this ; ( */ CREATE CONTINUOUS QUERY a AS SELECT 1; -- trailing
/* -- */ -- /*
CREATE CONTINUOUS QUERY b AS SELECT 2 /* at the end */;
-- the last one

--- between the words of a statement
CREATE /* a ; */ STREAM -- (
  s /* ' */ ( a /* " */ INT, -- b
  b INT ) KEY /* ` */ (a) TIMESTAMP -- ;
  BY /* x */ b LATENESS /* y */ INTERVAL /* z */ '2' -- w
  SECONDS DELETE /* d */ WHEN /* e */ a IS /* f; ( */ NULL -- g
  USING /* h */ csv OPTIONS /* i */ (path /* j */ 'x' /* k */);

--- between the words of a clause
CREATE CONTINUOUS /* 1 */ QUERY q /* 2 */ AS SELECT SUM(v) AS v FROM s
  COHERENCY /* ; */ v -- ( ' "
  WITHIN /* 5 */ 80 FIDELITY -- 97
  98 /* % */ % OVER /* ' */ INTERVAL -- x
  '1' /* DAY */ HOUR
  EMIT /* a */ EVERY -- b
  INTERVAL 1 MINUTE
  NOTIFY -- c
  WHEN v /* ; COHERENCY v WITHIN 5 */ > 1
  INTO /* d */ csv -- e
  OPTIONS (path 'x');

--- in a body
CREATE CONTINUOUS QUERY q AS
  SELECT a, -- COHERENCY a WITHIN 5; (
    /* it's " ` ( */ b
  FROM s -- the stream
  WHERE /* c */ a /* d */ > -- e
    5 /* ; */
  -- before the clause
  COHERENCY a WITHIN 5 -- after it
  ; -- after the statement

--- a body that begins and ends with one
CREATE CONTINUOUS QUERY q AS /* first */ SELECT 1 /* last */;
CREATE CONTINUOUS QUERY q AS -- first
  (SELECT 1) -- last

--- hints
CREATE CONTINUOUS QUERY q AS SELECT /*+ BROADCAST(h), COALESCE(3) */ SUM(q.v * h.w) AS v FROM q JOIN h USING (k) COHERENCY WITHIN 5;

--- minus signs and slashes that are none
CREATE CONTINUOUS QUERY q AS SELECT a - -b, a / b, a -b, a*-1, '--', "/*", `--` FROM s COHERENCY WITHIN 5;

--- nothing but comments
-- nothing
/* here */
