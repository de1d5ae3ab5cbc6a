-- Readings of meters: the first and the last of each, moving sums, all in order, and sudden rises.
CREATE TABLE readings (
  meter STRING,
  reading INT,
  read_at TIMESTAMP(3),
  arrived_at AS PROCTIME(),
  WATERMARK FOR read_at AS read_at - INTERVAL '5' SECOND
) WITH ('connector' = 'kafka', 'topic' = 'readings', 'format' = 'json');

CREATE TABLE first_readings (
  meter STRING, read_at TIMESTAMP(3)
) WITH ('connector' = 'kafka', 'topic' = 'first-readings', 'format' = 'json');

CREATE TABLE last_readings (
  meter STRING, read_at TIMESTAMP(3), PRIMARY KEY (meter) NOT ENFORCED
) WITH ('connector' = 'upsert-kafka', 'topic' = 'last', 'key.format' = 'json', 'value.format' = 'json');

CREATE TABLE known (
  meter STRING
) WITH ('connector' = 'kafka', 'topic' = 'known', 'format' = 'json');

CREATE TABLE log (
  meter STRING, reading INT, read_at TIMESTAMP(3)
) WITH ('connector' = 'kafka', 'topic' = 'log', 'format' = 'json');

CREATE TABLE moving (
  meter STRING, read_at TIMESTAMP(3), minutes BIGINT
) WITH ('connector' = 'kafka', 'topic' = 'moving', 'format' = 'json');

CREATE TABLE recent (
  meter STRING, read_at TIMESTAMP(3), readings BIGINT
) WITH ('connector' = 'kafka', 'topic' = 'recent', 'format' = 'json');

CREATE TABLE so_far (
  meter STRING, read_at TIMESTAMP(3), total BIGINT
) WITH ('connector' = 'kafka', 'topic' = 'so-far', 'format' = 'json');

CREATE TABLE rises (
  meter STRING, low INT, high INT
) WITH ('connector' = 'kafka', 'topic' = 'rises', 'format' = 'json');

INSERT INTO first_readings
SELECT meter, read_at
FROM (SELECT meter, read_at, ROW_NUMBER() OVER (PARTITION BY meter ORDER BY read_at) AS place FROM readings)
WHERE place = 1;

INSERT INTO last_readings
SELECT meter, read_at
FROM (SELECT meter, read_at, ROW_NUMBER() OVER (PARTITION BY meter ORDER BY read_at DESC) AS place FROM readings)
WHERE place = 1;

INSERT INTO known
SELECT meter
FROM (SELECT meter, ROW_NUMBER() OVER (PARTITION BY meter ORDER BY arrived_at) AS place FROM readings)
WHERE place = 1;

INSERT INTO log
SELECT meter, reading, read_at FROM readings ORDER BY read_at, reading;

INSERT INTO moving
SELECT meter, read_at,
  SUM(CAST(reading AS BIGINT)) OVER (
    PARTITION BY meter ORDER BY read_at RANGE BETWEEN INTERVAL '2' MINUTES PRECEDING AND CURRENT ROW
  )
FROM readings;

INSERT INTO recent
SELECT meter, read_at,
  COUNT(*) OVER (PARTITION BY meter ORDER BY read_at ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)
FROM readings;

INSERT INTO so_far
SELECT meter, read_at, SUM(CAST(reading AS BIGINT)) OVER (PARTITION BY meter ORDER BY read_at)
FROM readings;

INSERT INTO rises
SELECT meter, low, high
FROM readings MATCH_RECOGNIZE (
  PARTITION BY meter
  ORDER BY read_at
  MEASURES A.reading AS low, B.reading AS high
  ONE ROW PER MATCH
  AFTER MATCH SKIP PAST LAST ROW
  PATTERN (A B) WITHIN INTERVAL '10' MINUTE
  DEFINE A AS A.reading < 10, B AS B.reading >= 10
) AS found;
