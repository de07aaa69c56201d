-- Live: the same statements over a source that grows. Here it is a folder of JSON files; Kafka and others work alike.
--
--   deadband run examples/live.sql --live --once --checkpoint out/live-state
--
-- takes the files that are there and stops. Without --once it goes on, and prints changes as files arrive; try
--
--   deadband run examples/live.sql --live --checkpoint out/live-state
--
-- and, in another terminal,
--
--   echo '{"room": "lab", "watts": 500, "at": "2026-01-05 09:01:00"}' > examples/live/meters/4.json
--
-- State lives in the checkpoint: started again, it goes on where it was. A tick is answered when it is closed, that
-- is when a later row has come, later by LATENESS; so the newest rows wait for the next ones. Without --live the file
-- is replayed like any other: everything that is there, all ticks closed. Paths are relative to where you run it.

CREATE TEMPORARY VIEW rooms (room STRING, floor INT) USING csv OPTIONS (path 'examples/live/rooms.csv');

CREATE STREAM meters (room STRING, watts DOUBLE, at TIMESTAMP)
  KEY (room)
  TIMESTAMP BY at
  LATENESS INTERVAL '5' SECONDS
  USING json OPTIONS (path 'examples/live/meters');

CREATE CONTINUOUS QUERY floors AS
  SELECT r.floor, SUM(m.watts) AS watts
  FROM meters m JOIN rooms r ON m.room = r.room
  GROUP BY r.floor
  COHERENCY watts WITHIN 20;
