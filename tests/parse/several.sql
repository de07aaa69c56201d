--- empty statements
;;
CREATE CONTINUOUS QUERY a AS SELECT 1;;
;

--- no semicolon at the end
SHOW STREAMS; SHOW SETTINGS

--- on one line
SHOW STREAMS;SHOW SETTINGS;REFRESH TABLE t;SET pull='max';SELECT 1

--- nothing

--- only a semicolon
;

--- names are kept as they are spelt
CREATE CONTINUOUS QUERY MyQuery AS SELECT SUM(V) AS MyValue FROM S COHERENCY MYVALUE WITHIN 5;
