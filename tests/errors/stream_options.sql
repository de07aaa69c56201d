--- message_cost: an unknown column
CREATE STREAM s (k INT, price DOUBLE, fee DOUBLE, t INT) KEY (k) TIMESTAMP BY t OPTIONS (message_cost 'fees');

--- message_cost: nothing like a column
CREATE STREAM s (k INT, price DOUBLE, fee DOUBLE, t INT) KEY (k) TIMESTAMP BY t OPTIONS (message_cost '2.5');

--- message_cost: not a number
CREATE STREAM s (k INT, price DOUBLE, site STRING, t INT) KEY (k) TIMESTAMP BY t OPTIONS (message_cost 'site');

--- change_rate: negative
CREATE STREAM s (k INT, price DOUBLE, t INT) KEY (k) TIMESTAMP BY t OPTIONS (change_rate '-2.5');

--- change_rate: not finite
CREATE STREAM s (k INT, price DOUBLE, t INT) KEY (k) TIMESTAMP BY t OPTIONS (change_rate 'inf');

--- change_rate: an unknown column
CREATE STREAM s (k INT, price DOUBLE, t INT) KEY (k) TIMESTAMP BY t OPTIONS (change_rate 'prize');

--- change_rate: not a number
CREATE STREAM s (k INT, price DOUBLE, t INT, day DATE) KEY (k) TIMESTAMP BY t OPTIONS (change_rate = day);

--- a misspelt option
CREATE STREAM s (k INT, price DOUBLE, t INT) KEY (k) TIMESTAMP BY t OPTIONS (mesage_cost 'price');

--- a misspelt option beside those of a source
CREATE STREAM s (k INT, price DOUBLE, t INT) KEY (k) TIMESTAMP BY t USING csv OPTIONS (path 'x', change_rates '2');

--- an option of a source without one
CREATE STREAM s (k INT, price DOUBLE, t INT) KEY (k) TIMESTAMP BY t OPTIONS (path 'x', change_rate '2');

--- given twice
CREATE STREAM s (k INT, price DOUBLE, t INT) KEY (k) TIMESTAMP BY t OPTIONS (change_rate '2', Change_Rate '3');

--- options twice
CREATE STREAM s (k INT, price DOUBLE, t INT) KEY (k) TIMESTAMP BY t
  OPTIONS (change_rate '2') USING csv OPTIONS (path 'x');

--- source by an unknown column
CREATE STREAM s (k INT, price DOUBLE, t INT) KEY (k) TIMESTAMP BY t SOURCE BY (exchange);

--- no option
CREATE STREAM s (k INT, price DOUBLE, t INT) KEY (k) TIMESTAMP BY t OPTIONS ();
