-- Nexmark q12, windows of processing time: how many bids a person makes in each ten seconds on the clock.
CREATE TABLE datagen (
  event_type INT,
  person ROW<`dateTime` TIMESTAMP(3)>,
  auction ROW<`dateTime` TIMESTAMP(3)>,
  bid ROW<bidder BIGINT, `dateTime` TIMESTAMP(3)>,
  `dateTime` AS CASE
    WHEN event_type = 0 THEN person.`dateTime`
    WHEN event_type = 1 THEN auction.`dateTime`
    ELSE bid.`dateTime`
  END,
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH ('connector' = 'nexmark');

CREATE VIEW bid AS
SELECT bid.bidder, `dateTime` FROM datagen WHERE event_type = 2;

CREATE TABLE nexmark_q12 (
  bidder BIGINT, bid_count BIGINT, starttime TIMESTAMP(3), endtime TIMESTAMP(3)
) WITH ('connector' = 'blackhole');

CREATE VIEW B AS SELECT *, PROCTIME() as p_time FROM bid;

INSERT INTO nexmark_q12
SELECT
    bidder,
    count(*) as bid_count,
    window_start AS starttime,
    window_end AS endtime
FROM TABLE(
        TUMBLE(TABLE B, DESCRIPTOR(p_time), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end;
