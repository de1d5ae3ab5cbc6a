-- Bookings in the windows of GROUP BY, with first results before a window is over.
SET 'table.exec.emit.early-fire.enabled' = 'true';
SET 'table.exec.emit.early-fire.delay' = '0 ms';

CREATE TABLE bookings (
  hotel STRING,
  guests INT,
  booked_at TIMESTAMP(3),
  WATERMARK FOR booked_at AS booked_at - INTERVAL '30' SECOND
) WITH ('connector' = 'kafka', 'topic' = 'bookings', 'format' = 'json');

CREATE TABLE hours (
  hotel STRING, begins_at TIMESTAMP(3), bookings BIGINT, guests BIGINT
) WITH ('connector' = 'kafka', 'topic' = 'hours', 'format' = 'debezium-json');

INSERT INTO hours
SELECT hotel, HOP_START(booked_at, INTERVAL '10' MINUTE, INTERVAL '20' MINUTE), COUNT(*),
  SUM(CAST(guests AS BIGINT))
FROM bookings
GROUP BY hotel, HOP(booked_at, INTERVAL '10' MINUTE, INTERVAL '20' MINUTE);
