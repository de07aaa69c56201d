-- FIDELITY: the bound need not hold always. A door opens for a moment, and the cold room seems warm.
--
--   deadband run examples/fidelity.sql --answers strict
--   deadband run examples/fidelity.sql --answers relaxed
--
-- Both queries ask for the mean temperature to half a degree. `strict` reports every visit at the door, twice: the
-- rise and the fall. `relaxed` may be wrong in 20 % of the ticks of every minute and lets short visits pass; when the
-- cooling really fails, near the end, it runs out of slack and reports. The fidelity that was kept is in the table.

CREATE TEMPORARY VIEW log AS
  SELECT sensor, second,
         -18 + IF(second IN (7, 23, 41, 58, 66, 82), 4, 0)              -- the door is open
             + IF(second > 95, (second - 95) * 0.3, 0)                  -- the cooling has failed
             + IF(sensor = 'back', 0.2, 0) AS celsius
  FROM (SELECT explode(sequence(0, 119)) AS second) CROSS JOIN VALUES ('front'), ('back') AS t (sensor);

CREATE STREAM sensors (sensor STRING, celsius DOUBLE, second INT)
  KEY (sensor)
  TIMESTAMP BY second
  USING table OPTIONS (name 'log');

CREATE CONTINUOUS QUERY strict AS
  SELECT AVG(celsius) AS celsius FROM sensors
  COHERENCY celsius WITHIN 0.5;

CREATE CONTINUOUS QUERY relaxed AS
  SELECT AVG(celsius) AS celsius FROM sensors
  COHERENCY celsius WITHIN 0.5
  FIDELITY 80% OVER INTERVAL '1' MINUTE;
