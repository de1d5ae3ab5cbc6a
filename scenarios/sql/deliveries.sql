-- Orders with their delivery, the rate that held when they were placed, and the parcels of both carriers.
CREATE TABLE orders (
  id INT,
  shop STRING,
  currency STRING,
  price INT,
  ordered_at TIMESTAMP(3),
  WATERMARK FOR ordered_at AS ordered_at - INTERVAL '5' SECOND
) WITH ('connector' = 'kafka', 'topic' = 'orders', 'format' = 'json');

CREATE TABLE parcels (
  order_id INT,
  shop STRING,
  carrier STRING,
  sent_at TIMESTAMP(3),
  WATERMARK FOR sent_at AS sent_at - INTERVAL '5' SECOND
) WITH ('connector' = 'kafka', 'topic' = 'parcels', 'format' = 'json');

CREATE TABLE rates (
  currency STRING,
  rate INT,
  since TIMESTAMP(3),
  WATERMARK FOR since AS since - INTERVAL '5' SECOND,
  PRIMARY KEY (currency) NOT ENFORCED
) WITH ('connector' = 'upsert-kafka', 'topic' = 'rates', 'key.format' = 'json', 'value.format' = 'json');

CREATE TABLE sent (
  id INT, price INT, carrier STRING
) WITH ('connector' = 'kafka', 'topic' = 'sent', 'format' = 'json');

CREATE TABLE converted (
  id INT, price INT, rate INT
) WITH ('connector' = 'kafka', 'topic' = 'converted', 'format' = 'json');

CREATE TABLE pairs (
  window_start TIMESTAMP(3), shop STRING, id INT, carrier STRING
) WITH ('connector' = 'kafka', 'topic' = 'pairs', 'format' = 'json');

CREATE TABLE activity (
  window_start TIMESTAMP(3), shop STRING, happenings BIGINT
) WITH ('connector' = 'kafka', 'topic' = 'activity', 'format' = 'json');

INSERT INTO sent
SELECT orders.id, price, carrier
FROM orders
LEFT JOIN parcels
  ON orders.id = parcels.order_id
  AND sent_at BETWEEN ordered_at - INTERVAL '1' MINUTE AND ordered_at + INTERVAL '10' MINUTES;

INSERT INTO converted
SELECT id, price, rate
FROM orders
LEFT JOIN rates FOR SYSTEM_TIME AS OF orders.ordered_at ON orders.currency = rates.currency;

INSERT INTO pairs
SELECT COALESCE(placed.window_start, handed.window_start), COALESCE(placed.shop, handed.shop), id, carrier
FROM (
  SELECT * FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ordered_at), INTERVAL '5' MINUTES))
) AS placed
FULL JOIN (
  SELECT * FROM TABLE(TUMBLE(TABLE parcels, DESCRIPTOR(sent_at), INTERVAL '5' MINUTES))
) AS handed
  ON placed.shop = handed.shop
  AND placed.window_start = handed.window_start
  AND placed.window_end = handed.window_end;

CREATE VIEW happenings AS
SELECT shop, ordered_at AS happened_at FROM orders
UNION ALL
SELECT shop, sent_at FROM parcels;

INSERT INTO activity
SELECT window_start, shop, COUNT(*)
FROM TABLE(TUMBLE(TABLE happenings, DESCRIPTOR(happened_at), INTERVAL '5' MINUTES))
GROUP BY window_start, window_end, shop;
