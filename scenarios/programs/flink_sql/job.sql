-- Copies records from one topic to another, in Kafka's transactions.
CREATE TABLE given (id BIGINT, `key` STRING) WITH (
  'connector' = 'kafka', 'properties.bootstrap.servers' = '{kafka}', 'topic' = '{input}',
  'properties.group.id' = 'flink_sql', 'scan.startup.mode' = 'earliest-offset', 'format' = 'json'
);
CREATE TABLE copied (id BIGINT) WITH (
  'connector' = 'kafka', 'properties.bootstrap.servers' = '{kafka}', 'topic' = '{output}', 'format' = 'json',
  'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{output}',
  'properties.transaction.timeout.ms' = '600000'
);
INSERT INTO copied SELECT id FROM given;
