-- The two players with the highest scores of each game, while scores are corrected and players leave.
CREATE TABLE scores (
  game STRING,
  player STRING,
  score INT,
  PRIMARY KEY (game, player) NOT ENFORCED
) WITH ('connector' = 'kafka', 'topic' = 'scores', 'format' = 'debezium-json');

CREATE TABLE players (
  player STRING,
  country STRING,
  PRIMARY KEY (player) NOT ENFORCED
) WITH ('connector' = 'kafka', 'topic' = 'players', 'format' = 'debezium-json');

CREATE TABLE leaders (
  game STRING,
  player STRING,
  score INT,
  country STRING,
  PRIMARY KEY (game, player) NOT ENFORCED
) WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://localhost/games', 'table-name' = 'leaders');

INSERT INTO leaders
SELECT best.game, best.player, best.score, players.country
FROM (
  SELECT game, player, score
  FROM (
    SELECT game, player, score,
      ROW_NUMBER() OVER (PARTITION BY game ORDER BY score DESC, player) AS place
    FROM scores
  )
  WHERE place <= 2
) AS best
JOIN players ON best.player = players.player;
