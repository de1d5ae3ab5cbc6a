"""SQL alone: a small transfer that a large one follows, and the latest rate for each payment."""

from pyflink.table import EnvironmentSettings, TableEnvironment

settings = EnvironmentSettings.new_instance().in_streaming_mode().build()
t_env = TableEnvironment.create(settings)
t_env.get_config().get_configuration().set_string("parallelism.default", "1")
t_env.get_config().set_local_timezone("UTC")

transfers = t_env.from_elements(
    [
        (1, "2024-05-01 10:00:00", "ada", 0.5),
        (2, "2024-05-01 10:00:20", "bob", 300.0),
        (3, "2024-05-01 10:00:40", "ada", 900.0),
        (4, "2024-05-01 10:01:10", "bob", 0.9),
        (5, "2024-05-01 10:01:30", "bob", 20.0),
        (6, "2024-05-01 10:03:00", "ada", 0.2),
        (7, "2024-05-01 10:03:50", "ada", 700.0),
    ],
    ["id", "at", "account", "amount"],
)
t_env.create_temporary_view("raw_transfers", transfers)
t_env.execute_sql("CREATE TEMPORARY VIEW transfers AS SELECT *, TO_TIMESTAMP(`at`) AS ts FROM raw_transfers")

alerts = """
    CREATE TABLE alerts (
        account STRING,
        amount DOUBLE,
        ranking BIGINT,
        PRIMARY KEY (account, ranking) NOT ENFORCED
    ) WITH (
        'connector' = 'print',
        'print-identifier' = 'alert'
    )
"""
totals = "CREATE TABLE totals (account STRING, total DOUBLE, transfers BIGINT) WITH ('connector' = 'print')"
for ddl in (alerts, totals):
    t_env.execute_sql(ddl)

statements = t_env.create_statement_set()
statements.add_insert_sql(
    """
    INSERT INTO alerts
    SELECT account, amount, ranking FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY account ORDER BY amount DESC) AS ranking FROM transfers
    ) WHERE ranking <= 2
    """
)
statements.add_insert_sql(
    "INSERT INTO totals SELECT account, SUM(amount), COUNT(DISTINCT id) FROM transfers GROUP BY account"
)
statements.execute().wait()
