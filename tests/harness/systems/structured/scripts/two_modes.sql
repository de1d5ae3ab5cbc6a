CREATE TABLE orders (
  customer STRING,
  cents BIGINT,
  ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'kafka', 'topic' = 'orders', 'format' = 'json');
CREATE TABLE minutes (w TIMESTAMP(3), cents BIGINT) WITH ('connector' = 'kafka', 'topic' = 'minutes', 'format' = 'json');
CREATE TABLE totals (customer STRING, cents BIGINT, PRIMARY KEY (customer) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = 'totals', 'key.format' = 'json', 'value.format' = 'json');
INSERT INTO minutes SELECT window_start, SUM(cents) FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
INSERT INTO totals SELECT customer, SUM(cents) FROM orders WHERE customer IS NOT NULL GROUP BY customer;
