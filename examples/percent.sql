-- A bound in percent: the power that each floor draws, to within 5 % of the value last reported.
--
--   deadband run examples/percent.sql --answers floors
--
-- The first floor idles, and small changes do not matter; the second draws kilowatts, and 5 % of them is more slack.

CREATE TEMPORARY VIEW rooms AS
  SELECT * FROM VALUES ('lab', 2), ('kitchen', 1), ('office', 1) AS t (room, floor);

CREATE TEMPORARY VIEW readings AS
  SELECT * FROM VALUES
    ('lab', 2000, 0), ('kitchen', 60, 0), ('office', 120, 0),
    ('lab', 2080, 1), ('office', 124, 1),
    ('lab', 2110, 2), ('kitchen', 62, 2),
    ('lab', 2040, 3), ('kitchen', 400, 3),
    ('office', 131, 4),
    ('lab', 900, 5), ('kitchen', 65, 5),
    ('lab', 910, 6), ('office', 128, 6) AS t (room, watts, second);

-- TIMESTAMP BY also takes a number: one unit is one second.
CREATE STREAM meters (room STRING, watts DOUBLE, second INT)
  KEY (room)
  TIMESTAMP BY second
  USING table OPTIONS (name 'readings');

CREATE CONTINUOUS QUERY floors AS
  SELECT r.floor, SUM(m.watts) AS watts
  FROM meters m JOIN rooms r ON m.room = r.room
  GROUP BY r.floor
  COHERENCY watts WITHIN 5%;
