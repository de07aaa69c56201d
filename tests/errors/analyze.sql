CREATE STREAM quotes (symbol STRING, price DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at;
CREATE STREAM past (symbol STRING, price DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at USING parquet OPTIONS (path 'past');
CREATE STREAM log (symbol STRING, price DOUBLE, at TIMESTAMP) TIMESTAMP BY at USING parquet OPTIONS (path 'log');
CREATE TABLE history (symbol STRING, price DOUBLE, at TIMESTAMP);

--- an unknown stream
ANALYZE STREAM quotez;

--- a table
ANALYZE STREAM history;

--- frames that are given later
ANALYZE STREAM quotes;

--- a stream without a key
ANALYZE STREAM log;

--- an unknown table
ANALYZE STREAM quotes FROM histroy;

--- an unknown table in a query
ANALYZE STREAM quotes FROM (SELECT * FROM histroy WHERE price > 5);

--- from itself
ANALYZE STREAM past FROM past;

--- from another stream
ANALYZE STREAM quotes FROM past;

--- from neither a table nor a query
ANALYZE STREAM quotes FROM 5 + 5;

--- from two tables
ANALYZE STREAM quotes FROM history, history;
