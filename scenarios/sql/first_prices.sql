-- How many products have a lowest price, and what these prices come to.
CREATE TABLE prices (
  product STRING,
  price INT
) WITH ('connector' = 'kafka', 'topic' = 'prices', 'format' = 'json');

CREATE TABLE lowest (
  products BIGINT,
  total BIGINT
) WITH ('connector' = 'kafka', 'topic' = 'lowest', 'format' = 'debezium-json');

INSERT INTO lowest
SELECT COUNT(*), SUM(CAST(price AS BIGINT))
FROM (
  SELECT product, price, ROW_NUMBER() OVER (PARTITION BY product ORDER BY price) AS place FROM prices
)
WHERE place = 1;
