-- Teams with the sum of points up to their place, and figures of each league, while results are corrected.
CREATE TABLE results (
  league STRING,
  team STRING,
  points INT,
  PRIMARY KEY (league, team) NOT ENFORCED
) WITH ('connector' = 'kafka', 'topic' = 'results', 'format' = 'debezium-json');

CREATE TABLE standings (
  league STRING, team STRING, points INT, sum_so_far BIGINT, PRIMARY KEY (league, team) NOT ENFORCED
) WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://localhost/sports', 'table-name' = 'standings');

CREATE TABLE leagues (
  league STRING, teams BIGINT, different BIGINT, best INT, PRIMARY KEY (league) NOT ENFORCED
) WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://localhost/sports', 'table-name' = 'leagues');

CREATE TABLE teams (
  league STRING, team STRING, points INT, PRIMARY KEY (league, team) NOT ENFORCED
) WITH ('connector' = 'upsert-kafka', 'topic' = 'teams', 'key.format' = 'json', 'value.format' = 'json');

INSERT INTO standings
SELECT league, team, points,
  SUM(CAST(points AS BIGINT)) OVER (
    PARTITION BY league ORDER BY points ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
  )
FROM results;

INSERT INTO leagues
SELECT league, COUNT(*), COUNT(DISTINCT points), MAX(points) FROM results GROUP BY league;

INSERT INTO teams
SELECT league, team, points FROM results;
