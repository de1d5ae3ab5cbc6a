-- Nexmark q4, average price for a category: the average of the winning bids of its auctions.
CREATE TABLE datagen (
  event_type INT,
  person ROW<`dateTime` TIMESTAMP(3)>,
  auction ROW<id BIGINT, `dateTime` TIMESTAMP(3), expires TIMESTAMP(3), category BIGINT>,
  bid ROW<auction BIGINT, price BIGINT, `dateTime` TIMESTAMP(3)>,
  `dateTime` AS CASE
    WHEN event_type = 0 THEN person.`dateTime`
    WHEN event_type = 1 THEN auction.`dateTime`
    ELSE bid.`dateTime`
  END,
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH ('connector' = 'nexmark');

CREATE VIEW auction AS
SELECT auction.id, `dateTime`, auction.expires, auction.category FROM datagen WHERE event_type = 1;

CREATE VIEW bid AS
SELECT bid.auction, bid.price, `dateTime` FROM datagen WHERE event_type = 2;

CREATE TABLE nexmark_q4 (id BIGINT, final BIGINT) WITH ('connector' = 'blackhole');

INSERT INTO nexmark_q4
SELECT
    Q.category,
    AVG(Q.final)
FROM (
    SELECT MAX(B.price) AS final, A.category
    FROM auction A, bid B
    WHERE A.id = B.auction AND B.`dateTime` BETWEEN A.`dateTime` AND A.expires
    GROUP BY A.id, A.category
) Q
GROUP BY Q.category;
