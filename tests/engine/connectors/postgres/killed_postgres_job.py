"""Writes numbers into a table until it is killed: ``killed_postgres_job.py ADDRESS CHECKPOINTS NUMBERS``."""

from __future__ import annotations

import sys

from onceproof.engine import (
    Configuration,
    DataGeneratorSource,
    JdbcConnectionOptions,
    PostgresSink,
    PostgresUpsertSink,
    PostgresWriteAheadSink,
    RateLimiterStrategy,
    StreamExecutionEnvironment,
)

NUMBERS_PER_SECOND = 1500
KEYS = 50


def main(address: str, checkpoints: str, numbers: int) -> None:
    """Run the job to its end: each number once into two tables, the last of each key into a third."""
    configuration = Configuration()
    for key, value in {
        "execution.checkpointing.dir": checkpoints,
        "execution.checkpointing.interval": "100 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "1000000",
        "restart-strategy.fixed-delay.delay": "100 ms",
    }.items():
        configuration.set_string(key, value)
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    environment.set_parallelism(2)
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(address)
    options = builder.with_request_timeout_ms(2000).build()
    rate = RateLimiterStrategy.per_second(NUMBERS_PER_SECOND)
    source = DataGeneratorSource(lambda number: (number, number % KEYS), numbers, rate)
    stream = environment.from_source(source, None, "numbers")
    columns = ["n", "key"]
    stream.sink_to(PostgresSink(options, "numbers", columns, batch_rows=20)).name("prepared").uid("prepared")
    ahead = PostgresWriteAheadSink(options, "sent", columns, ledger="sent_ledger")
    stream.sink_to(ahead).name("ahead").uid("ahead")
    latest = stream.map(lambda row: (row[1], row[0])).key_by(lambda row: row[0])
    latest.sink_to(PostgresUpsertSink(options, "latest", ["key", "n"])).name("latest").uid("latest")
    environment.execute("numbers")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
