CREATE TABLE orders (id BIGINT, customer STRING, cents BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'kafka', 'topic' = 'orders', 'format' = 'json');
CREATE TABLE dear (id BIGINT, customer STRING, ts TIMESTAMP(3)) WITH ('connector' = 'kafka', 'topic' = 'dear', 'format' = 'json');
INSERT INTO dear SELECT id, UPPER(customer), ts FROM orders WHERE cents > 1;
