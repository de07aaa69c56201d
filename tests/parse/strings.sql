--- semicolons, brackets and clauses in strings
CREATE CONTINUOUS QUERY q AS SELECT 'a;b', "c;(d", ';', 'COHERENCY v WITHIN 5', "FIDELITY 98%" FROM s; SHOW STREAMS;

--- quotes in strings
CREATE CONTINUOUS QUERY q AS SELECT 'it''s', "say ""x""", 'it\'s', "\"", '\\', '"', "'", '`', '' FROM s COHERENCY WITHIN 5;

--- raw strings
CREATE CONTINUOUS QUERY q AS SELECT r'a\', R"b\", r'c;d' FROM s WHERE rx = r AND r = 'x' COHERENCY WITHIN 5;

--- strings over several lines
CREATE CONTINUOUS QUERY q AS SELECT 'a
-- no comment
COHERENCY v WITHIN 5; (' AS a FROM s;

--- option values
CREATE STREAM s (a INT) TIMESTAMP BY a USING x OPTIONS (
  a 'it''s', b "say ""x""", c 'tab\tnew\nline', d 'C:\\data\\x', e r'C:\data', f '\'', 'g.h' 5, i.j.k true, `l m` 1.5, n = 'o');

--- escapes that Spark keeps
CREATE STREAM s (a INT) TIMESTAMP BY a USING x OPTIONS (a '100\%', b 'x\_y', c '\q');
