-- The revenue of each shop in windows of ten minutes.
CREATE TABLE orders (
  shop STRING,
  price DECIMAL(10, 2),
  ordered_at TIMESTAMP(3),
  WATERMARK FOR ordered_at AS ordered_at - INTERVAL '5' SECOND
) WITH ('connector' = 'kafka', 'topic' = 'orders', 'format' = 'json');

CREATE TABLE revenue (
  window_start TIMESTAMP(3),
  shop STRING,
  revenue DECIMAL(38, 2),
  orders BIGINT
) WITH ('connector' = 'kafka', 'topic' = 'revenue', 'format' = 'json');

INSERT INTO revenue
SELECT window_start, shop, SUM(price), COUNT(*)
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ordered_at), INTERVAL '10' MINUTES))
GROUP BY window_start, window_end, shop;
