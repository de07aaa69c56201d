-- PRECISION: intervals that contain the truth, and filters that keep most of the traffic at its source.
--
--   deadband run examples/precision.sql --answers latency
--
-- 60 routers measure how long packets wait; half of them are busy, the others idle. The mean wait on each of eight paths
-- is known to within 2 ms, and the worst queue of all to within 10 ms. All queries share the routers' filters.

CREATE TEMPORARY VIEW hops AS
  SELECT concat('r', router) AS router, concat('rack', router DIV 10) AS rack,
         20 + 8 * sin(second / 40 + router) * IF(router % 2 = 0, 1, 0.05)
            + (hash(second, router) % 1000) / 1000 * IF(router % 2 = 0, 1.5, 0.05) AS wait_ms, second
  FROM (SELECT explode(sequence(0, 59)) AS router) CROSS JOIN (SELECT explode(sequence(0, 599)) AS second);

CREATE TEMPORARY VIEW routes AS
  SELECT concat('path', path) AS path, concat('r', (path * 7 + hop * 5) % 60) AS router
  FROM (SELECT explode(sequence(0, 7)) AS path) CROSS JOIN (SELECT explode(sequence(0, 9)) AS hop);

-- One site per rack: where a rack holds all routers of an answer, their sum is filtered as one value.
CREATE STREAM queues (router STRING, rack STRING, wait_ms DOUBLE, second INT)
  KEY (router)
  TIMESTAMP BY second
  SOURCE BY (rack)
  USING table OPTIONS (name 'hops');

CREATE CONTINUOUS QUERY latency AS
  SELECT r.path, AVG(q.wait_ms) AS ms
  FROM queues q JOIN routes r ON q.router = r.router
  GROUP BY r.path
  PRECISION ms WITHIN 2;

CREATE CONTINUOUS QUERY worst AS
  SELECT MAX(wait_ms) AS ms, COUNT(*) AS routers FROM queues
  PRECISION ms WITHIN 10;
