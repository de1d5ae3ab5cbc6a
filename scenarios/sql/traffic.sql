-- The visits of a site in windows of every kind, with the longest and the last visit of each window.
CREATE TABLE visits (
  visitor STRING,
  page STRING,
  seconds INT,
  visited_at TIMESTAMP(3),
  WATERMARK FOR visited_at AS visited_at - INTERVAL '10' SECOND
) WITH ('connector' = 'kafka', 'topic' = 'visits', 'format' = 'json');

CREATE TABLE pages (
  window_start TIMESTAMP(3), page STRING, visits BIGINT, visitors BIGINT
) WITH ('connector' = 'kafka', 'topic' = 'pages', 'format' = 'json');

CREATE TABLE days (
  window_start TIMESTAMP(3), window_end TIMESTAMP(3), visitor STRING, seconds BIGINT
) WITH ('connector' = 'kafka', 'topic' = 'days', 'format' = 'json');

CREATE TABLE stays (
  window_start TIMESTAMP(3), window_end TIMESTAMP(3), visitor STRING, visits BIGINT, seconds BIGINT
) WITH ('connector' = 'kafka', 'topic' = 'stays', 'format' = 'json');

CREATE TABLE longest (
  window_start TIMESTAMP(3), page STRING, visitor STRING, seconds INT, place BIGINT
) WITH ('connector' = 'kafka', 'topic' = 'longest', 'format' = 'json');

CREATE TABLE latest (
  window_start TIMESTAMP(3), visitor STRING, page STRING
) WITH ('connector' = 'kafka', 'topic' = 'latest', 'format' = 'json');

CREATE TABLE rushes (
  page STRING, begins_at TIMESTAMP(3), visits BIGINT
) WITH ('connector' = 'kafka', 'topic' = 'rushes', 'format' = 'json');

INSERT INTO pages
SELECT window_start, page, COUNT(*), COUNT(DISTINCT visitor)
FROM TABLE(HOP(TABLE visits, DESCRIPTOR(visited_at), INTERVAL '5' MINUTES, INTERVAL '15' MINUTES))
GROUP BY window_start, window_end, page;

INSERT INTO days
SELECT window_start, window_end, visitor, SUM(CAST(seconds AS BIGINT))
FROM TABLE(CUMULATE(TABLE visits, DESCRIPTOR(visited_at), INTERVAL '1' HOUR, INTERVAL '4' HOURS))
GROUP BY window_start, window_end, visitor;

INSERT INTO stays
SELECT window_start, window_end, visitor, COUNT(*), SUM(CAST(seconds AS BIGINT))
FROM TABLE(SESSION(TABLE visits PARTITION BY visitor, DESCRIPTOR(visited_at), INTERVAL '2' MINUTES))
GROUP BY window_start, window_end, visitor;

INSERT INTO longest
SELECT window_start, page, visitor, seconds, place
FROM (
  SELECT window_start, page, visitor, seconds,
    ROW_NUMBER() OVER (
      PARTITION BY window_start, window_end, page ORDER BY seconds DESC, visitor
    ) AS place
  FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(visited_at), INTERVAL '10' MINUTES))
)
WHERE place <= 2;

INSERT INTO latest
SELECT window_start, visitor, page
FROM (
  SELECT window_start, visitor, page,
    ROW_NUMBER() OVER (
      PARTITION BY window_start, window_end, visitor ORDER BY visited_at DESC
    ) AS place
  FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(visited_at), INTERVAL '10' MINUTES))
)
WHERE place = 1;

INSERT INTO rushes
SELECT page, SESSION_START(visited_at, INTERVAL '3' MINUTE), COUNT(*)
FROM visits
GROUP BY page, SESSION(visited_at, INTERVAL '3' MINUTE);
