-- Nexmark q3, local item suggestion: people of three states who sell items of category ten.
CREATE TABLE datagen (
  event_type INT,
  person ROW<id BIGINT, name VARCHAR, city VARCHAR, state VARCHAR, `dateTime` TIMESTAMP(3)>,
  auction ROW<id BIGINT, `dateTime` TIMESTAMP(3), seller BIGINT, category BIGINT>,
  bid ROW<`dateTime` TIMESTAMP(3)>,
  `dateTime` AS CASE
    WHEN event_type = 0 THEN person.`dateTime`
    WHEN event_type = 1 THEN auction.`dateTime`
    ELSE bid.`dateTime`
  END,
  WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND
) WITH ('connector' = 'nexmark');

CREATE VIEW person AS
SELECT person.id, person.name, person.city, person.state, `dateTime` FROM datagen WHERE event_type = 0;

CREATE VIEW auction AS
SELECT auction.id, `dateTime`, auction.seller, auction.category FROM datagen WHERE event_type = 1;

CREATE TABLE nexmark_q3 (name VARCHAR, city VARCHAR, state VARCHAR, id BIGINT) WITH ('connector' = 'blackhole');

INSERT INTO nexmark_q3
SELECT
    P.name, P.city, P.state, A.id
FROM
    auction AS A INNER JOIN person AS P on A.seller = P.id
WHERE
    A.category = 10 and (P.state = 'OR' OR P.state = 'ID' OR P.state = 'CA');
