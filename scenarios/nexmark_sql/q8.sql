-- Nexmark q8, monitor new users: people who open an auction in the ten seconds in which they register.
CREATE TABLE datagen (
  event_type INT,
  person ROW<id BIGINT, name VARCHAR, `dateTime` TIMESTAMP(3)>,
  auction ROW<`dateTime` TIMESTAMP(3), seller BIGINT>,
  bid ROW<`dateTime` TIMESTAMP(3)>,
  `dateTime` AS CASE
    WHEN event_type = 0 THEN person.`dateTime`
    WHEN event_type = 1 THEN auction.`dateTime`
    ELSE bid.`dateTime`
  END,
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH ('connector' = 'nexmark');

CREATE VIEW person AS
SELECT person.id, person.name, `dateTime` FROM datagen WHERE event_type = 0;

CREATE VIEW auction AS
SELECT `dateTime`, auction.seller FROM datagen WHERE event_type = 1;

CREATE TABLE nexmark_q8 (id BIGINT, name VARCHAR, stime TIMESTAMP(3)) WITH ('connector' = 'blackhole');

INSERT INTO nexmark_q8
SELECT P.id, P.name, P.starttime
FROM (
  SELECT id, name,
        window_start AS starttime,
        window_end AS endtime
  FROM TABLE(
            TUMBLE(TABLE person, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
  GROUP BY id, name, window_start, window_end
) P
JOIN (
  SELECT seller,
        window_start AS starttime,
        window_end AS endtime
  FROM TABLE(
        TUMBLE(TABLE auction, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
  GROUP BY seller, window_start, window_end
) A
ON P.id = A.seller AND P.starttime = A.starttime AND P.endtime = A.endtime;
