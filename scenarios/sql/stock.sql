-- What is in stock and where it comes from, and which of it has a supplier: tables that are updated by key.
CREATE TABLE items (
  item STRING,
  shelf STRING,
  amount INT,
  supplier STRING,
  PRIMARY KEY (item) NOT ENFORCED
) WITH ('connector' = 'upsert-kafka', 'topic' = 'items', 'key.format' = 'json', 'value.format' = 'json');

CREATE TABLE suppliers (
  supplier STRING,
  city STRING
) WITH ('connector' = 'kafka', 'topic' = 'suppliers', 'format' = 'debezium-json');

CREATE TABLE stock (
  item STRING, amount INT, city STRING
) WITH ('connector' = 'kafka', 'topic' = 'stock', 'format' = 'debezium-json');

CREATE TABLE supplied (
  item STRING, amount INT, PRIMARY KEY (item) NOT ENFORCED
) WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://localhost/stock', 'table-name' = 'supplied');

CREATE TABLE orphans (
  item STRING, amount INT, PRIMARY KEY (item) NOT ENFORCED
) WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://localhost/stock', 'table-name' = 'orphans');

CREATE TABLE shelves (
  shelf STRING, PRIMARY KEY (shelf) NOT ENFORCED
) WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://localhost/stock', 'table-name' = 'shelves');

INSERT INTO stock
SELECT item, amount, city FROM items FULL JOIN suppliers ON items.supplier = suppliers.supplier;

INSERT INTO supplied
SELECT item, amount FROM items
WHERE EXISTS (SELECT 1 FROM suppliers WHERE suppliers.supplier = items.supplier)
ON CONFLICT DO DEDUPLICATE;

INSERT INTO orphans
SELECT item, amount FROM items
WHERE NOT EXISTS (SELECT 1 FROM suppliers WHERE suppliers.supplier = items.supplier)
ON CONFLICT DO DEDUPLICATE;

INSERT INTO shelves
SELECT shelf FROM items WHERE amount > 0 AND shelf IS NOT NULL
ON CONFLICT DO DEDUPLICATE;
