-- Sales by country of the customer as he is known when his order comes: a lookup join.
CREATE TABLE orders (
  id INT, customer STRING, amount INT, placed AS PROCTIME()
) WITH ('connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = 'broker:9092',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json');

CREATE TABLE customers (
  name STRING, country STRING, discount INT, PRIMARY KEY (name) NOT ENFORCED
) WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://db:5432/shop', 'table-name' = 'customers');

CREATE TABLE sales (
  country STRING, orders BIGINT, amount BIGINT, PRIMARY KEY (country) NOT ENFORCED
) WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://db:5432/shop', 'table-name' = 'sales');

INSERT INTO sales
SELECT COALESCE(c.country, 'unknown'), COUNT(*), SUM(o.amount - c.discount)
FROM orders AS o
LEFT JOIN customers FOR SYSTEM_TIME AS OF o.placed AS c ON o.customer = c.name AND c.discount < 4
GROUP BY COALESCE(c.country, 'unknown');
