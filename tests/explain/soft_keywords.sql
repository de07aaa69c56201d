CREATE STREAM quotes (symbol STRING, price DOUBLE, per DOUBLE, risk DOUBLE, at TIMESTAMP) KEY (symbol) TIMESTAMP BY at;
CREATE STREAM demand (id INT, symbol STRING, price DOUBLE, at TIMESTAMP) KEY (id) TIMESTAMP BY at;
CREATE TABLE holdings (account STRING, symbol STRING, shares DOUBLE, cost DOUBLE, sector STRING);
CREATE TABLE subs (id INT, lo DOUBLE, hi DOUBLE);

CREATE STREAM memory (key STRING, precision DOUBLE, coherency DOUBLE, within DOUBLE, timestamp TIMESTAMP, options STRING)
  KEY (key) TIMESTAMP BY timestamp;
CREATE TABLE fidelity (key STRING, into STRING, emit DOUBLE, notify DOUBLE, response DOUBLE, stream STRING, lateness INT);

--- everywhere
EXPLAIN SELECT fidelity.into, SUM(emit * (precision - notify)) AS within, AVG(coherency) memory
  FROM memory JOIN fidelity ON memory.key = fidelity.key
  WHERE response > 5 AND lateness < 3 OR stream = 'x' AND NOT emit IS NULL
  GROUP BY into ORDER BY into, within DESC
  COHERENCY within WITHIN 5, memory WITHIN 2%;

--- aliases
EXPLAIN SELECT precision.into AS coherency, SUM(precision.emit * within.within) AS key
  FROM memory within, fidelity precision WHERE within.key = precision.key GROUP BY precision.into COHERENCY key WITHIN 1;
