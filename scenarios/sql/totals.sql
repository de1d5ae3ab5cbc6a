-- What each customer has paid so far, kept up to date in a table by key.
CREATE TABLE payments (
  customer STRING,
  amount INT
) WITH ('connector' = 'kafka', 'topic' = 'payments', 'format' = 'json');

CREATE TABLE totals (
  customer STRING,
  paid BIGINT,
  payments BIGINT,
  PRIMARY KEY (customer) NOT ENFORCED
) WITH ('connector' = 'upsert-kafka', 'topic' = 'totals', 'key.format' = 'json', 'value.format' = 'json');

INSERT INTO totals
SELECT customer, SUM(CAST(amount AS BIGINT)), COUNT(*) FROM payments GROUP BY customer;
