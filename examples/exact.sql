-- Without a clause a query is exact: any Spark SQL over streams, answered as changes.
--
--   deadband run examples/exact.sql --answers open_orders
--   deadband run examples/exact.sql --answers by_country
--   deadband run examples/exact.sql --answers largest
--
-- A change is a row with diff -1 (it is no longer in the result) or +1 (it is now). An update is both, at one ts.

CREATE TEMPORARY VIEW customers AS
  SELECT * FROM VALUES (1, 'Ann', 'SE'), (2, 'Bob', 'DE'), (3, 'Cy', 'SE') AS t (customer, name, country);

CREATE TEMPORARY VIEW order_log AS
  SELECT * FROM VALUES
    (101, 1, 50.0, 'open', TIMESTAMP '2026-01-05 09:00:00'),
    (102, 2, 20.0, 'open', TIMESTAMP '2026-01-05 09:00:05'),
    (103, 3, 70.0, 'open', TIMESTAMP '2026-01-05 09:00:09'),
    (101, 1, 55.0, 'open', TIMESTAMP '2026-01-05 09:00:12'),
    (103, 3, 70.0, 'paid', TIMESTAMP '2026-01-05 09:00:20'),
    (102, 2, 20.0, 'void', TIMESTAMP '2026-01-05 09:00:31') AS t (id, customer, amount, state, at);

-- A row that satisfies DELETE WHEN removes its key: a void order is as if it had never been.
CREATE STREAM orders (id INT, customer INT, amount DOUBLE, state STRING, at TIMESTAMP)
  KEY (id)
  TIMESTAMP BY at
  DELETE WHEN state = 'void'
  USING table OPTIONS (name 'order_log');

-- A join. Rows come and go as orders open and close.
CREATE CONTINUOUS QUERY open_orders AS
  SELECT o.id, c.name, o.amount
  FROM orders o JOIN customers c ON o.customer = c.customer
  WHERE o.state = 'open';

-- An aggregate, here of all orders that are not void.
CREATE CONTINUOUS QUERY by_country AS
  SELECT c.country, COUNT(*) AS orders, SUM(o.amount) AS amount
  FROM orders o JOIN customers c ON o.customer = c.customer
  GROUP BY c.country;

-- Window functions, subqueries, set operations: what Spark can run, runs.
CREATE CONTINUOUS QUERY largest AS
  SELECT id, amount FROM (SELECT id, amount, RANK() OVER (ORDER BY amount DESC) AS place FROM orders) WHERE place = 1;
