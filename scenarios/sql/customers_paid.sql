-- Each customer with what they have paid, if anything.
CREATE TABLE customers (
  customer STRING,
  country STRING,
  PRIMARY KEY (customer) NOT ENFORCED
) WITH ('connector' = 'upsert-kafka', 'topic' = 'customers', 'key.format' = 'json', 'value.format' = 'json');

CREATE TABLE payments (
  payment INT,
  customer STRING,
  amount INT,
  PRIMARY KEY (payment) NOT ENFORCED
) WITH ('connector' = 'kafka', 'topic' = 'payments', 'format' = 'debezium-json');

CREATE TABLE paid (
  customer STRING,
  country STRING,
  amount BIGINT,
  PRIMARY KEY (customer) NOT ENFORCED
) WITH ('connector' = 'upsert-kafka', 'topic' = 'paid', 'key.format' = 'json', 'value.format' = 'json');

INSERT INTO paid
SELECT customers.customer, country, amount
FROM customers
LEFT JOIN (SELECT customer, SUM(CAST(amount AS BIGINT)) AS amount FROM payments GROUP BY customer) AS sums
  ON customers.customer = sums.customer;
