-- Logins of each user since the last quiet hour: what nobody has touched for so long is forgotten.
SET 'table.exec.state.ttl' = '1 h';

CREATE TABLE logins (
  account STRING,
  device STRING
) WITH ('connector' = 'kafka', 'topic' = 'logins', 'format' = 'json');

CREATE TABLE recent_logins (
  account STRING, logins BIGINT, devices BIGINT, PRIMARY KEY (account) NOT ENFORCED
) WITH ('connector' = 'upsert-kafka', 'topic' = 'recent', 'key.format' = 'json', 'value.format' = 'json');

INSERT INTO recent_logins
SELECT account, COUNT(*), COUNT(DISTINCT device) FROM logins GROUP BY account;
