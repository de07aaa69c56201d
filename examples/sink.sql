-- INTO: changes also go to a sink, any format that Spark can write.
--
--   deadband run examples/sink.sql
--   cat out/tanks/batch=0/*.json
--
-- Each row has ts and diff: +1 for an answer, -1 when a group is gone. A sink of files is written batch by batch,
-- and a batch that runs again replaces its folder: nothing is there twice. A replay is batch 0.

CREATE TEMPORARY VIEW pump_log AS
  SELECT * FROM VALUES
    ('a1', 10.0, 0), ('a2', 12.0, 0), ('b1', 40.0, 0),
    ('a1', 10.5, 1), ('b1', 43.5, 1),
    ('a2', 15.5, 2), ('b1', 44.0, 2),
    ('b1', NULL, 3) AS t (pump, litres, minute);

CREATE TEMPORARY VIEW pumps AS
  SELECT * FROM VALUES ('a1', 'A'), ('a2', 'A'), ('b1', 'B') AS t (pump, tank);

CREATE STREAM pumped (pump STRING, litres DOUBLE, minute INT)
  KEY (pump)
  TIMESTAMP BY minute
  DELETE WHEN litres IS NULL
  USING table OPTIONS (name 'pump_log');

CREATE CONTINUOUS QUERY tanks AS
  SELECT p.tank, SUM(f.litres) AS litres
  FROM pumped f JOIN pumps p ON f.pump = p.pump
  GROUP BY p.tank
  COHERENCY litres WITHIN 2
  INTO json OPTIONS (path 'out/tanks');
