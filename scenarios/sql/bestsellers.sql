-- The best of each shop: by number of sales, by single sale, and the first of all.
CREATE TABLE sales (
  shop STRING,
  product STRING,
  price INT
) WITH ('connector' = 'kafka', 'topic' = 'sales', 'format' = 'json');

CREATE TABLE bestsellers (
  shop STRING, place BIGINT, product STRING, sales BIGINT, PRIMARY KEY (shop, place) NOT ENFORCED
) WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://localhost/shops', 'table-name' = 'bestsellers');

CREATE TABLE dearest (
  shop STRING, product STRING, price INT
) WITH ('connector' = 'kafka', 'topic' = 'dearest', 'format' = 'debezium-json');

CREATE TABLE cheapest (
  product STRING, price INT
) WITH ('connector' = 'kafka', 'topic' = 'cheapest', 'format' = 'debezium-json');

INSERT INTO bestsellers
SELECT shop, place, product, sales
FROM (
  SELECT shop, product, sales, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY sales DESC, product) AS place
  FROM (SELECT shop, product, COUNT(*) AS sales FROM sales GROUP BY shop, product)
)
WHERE place <= 2;

INSERT INTO dearest
SELECT shop, product, price
FROM (
  SELECT shop, product, price, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY price DESC, product) AS place
  FROM sales
)
WHERE place <= 3;

INSERT INTO cheapest
SELECT product, price FROM sales ORDER BY price, product LIMIT 3;
