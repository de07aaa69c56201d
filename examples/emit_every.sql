-- EMIT EVERY: answers at most once in an interval, whatever arrives between.
--
--   deadband run examples/emit_every.sql --answers pages
--   deadband run examples/emit_every.sql --answers revenue

CREATE TEMPORARY VIEW click_log AS
  SELECT page, TIMESTAMP '2026-01-05 09:00:00' + make_dt_interval(0, 0, 0, second) AS at
  FROM VALUES ('home', 3), ('docs', 11), ('home', 40), ('docs', 62), ('docs', 90), ('home', 128), ('docs', 129), ('docs', 175),
              ('home', 260) AS t (page, second);

-- A stream without KEY only grows: every row is a fact of its own.
CREATE STREAM clicks (page STRING, at TIMESTAMP)
  TIMESTAMP BY at
  USING table OPTIONS (name 'click_log');

-- Exact counts once a minute; a minute without clicks tells nothing.
CREATE CONTINUOUS QUERY pages AS
  SELECT page, COUNT(*) AS clicks FROM clicks GROUP BY page
  EMIT EVERY INTERVAL '1' MINUTE;

CREATE TEMPORARY VIEW cart_log AS
  SELECT cart, value, TIMESTAMP '2026-01-05 09:00:00' + make_dt_interval(0, 0, 0, second) AS at
  FROM VALUES (1, 30.0, 5), (2, 12.5, 9), (1, 33.0, 48), (2, 14.0, 70), (3, 4.0, 95), (3, 80.0, 130), (3, 82.0, 170), (1, 31.0, 200)
       AS t (cart, value, second);

-- With KEY the latest row of a cart is the cart now.
CREATE STREAM carts (cart INT, value DOUBLE, at TIMESTAMP)
  KEY (cart)
  TIMESTAMP BY at
  USING table OPTIONS (name 'cart_log');

-- Looked at once a minute, and told only when it has moved by more than 10 since it was last told.
CREATE CONTINUOUS QUERY revenue AS
  SELECT SUM(value) AS value FROM carts
  COHERENCY value WITHIN 10
  EMIT EVERY INTERVAL '1' MINUTE;
