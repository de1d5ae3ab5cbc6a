-- Sales of each product, summed up in bundles: in two phases, and in three where DISTINCT is split.
SET 'table.exec.mini-batch.enabled' = 'true';
SET 'table.exec.mini-batch.allow-latency' = '2 s';
SET 'table.exec.mini-batch.size' = '4';
SET 'table.optimizer.distinct-agg.split.enabled' = 'true';

CREATE TABLE sales (
  product STRING,
  customer STRING,
  amount INT
) WITH ('connector' = 'kafka', 'topic' = 'sales', 'format' = 'json');

CREATE TABLE prices (
  product STRING,
  seller STRING,
  price INT,
  PRIMARY KEY (product, seller) NOT ENFORCED
) WITH ('connector' = 'kafka', 'topic' = 'prices', 'format' = 'debezium-json');

CREATE TABLE sold (
  product STRING, amount BIGINT, most INT, PRIMARY KEY (product) NOT ENFORCED
) WITH ('connector' = 'upsert-kafka', 'topic' = 'sold', 'key.format' = 'json', 'value.format' = 'json');

CREATE TABLE buyers (
  product STRING, customers BIGINT, PRIMARY KEY (product) NOT ENFORCED
) WITH ('connector' = 'upsert-kafka', 'topic' = 'buyers', 'key.format' = 'json', 'value.format' = 'json');

CREATE TABLE offers (
  product STRING, cheapest INT, offers BIGINT, PRIMARY KEY (product) NOT ENFORCED
) WITH ('connector' = 'upsert-kafka', 'topic' = 'offers', 'key.format' = 'json', 'value.format' = 'json');

INSERT INTO sold
SELECT product, SUM(CAST(amount AS BIGINT)), MAX(amount) FROM sales GROUP BY product;

INSERT INTO buyers
SELECT product, COUNT(DISTINCT customer) FROM sales GROUP BY product;

INSERT INTO offers
SELECT product, MIN(price), COUNT(*) FROM prices GROUP BY product;
