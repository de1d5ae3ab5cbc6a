"""Writes numbers into tables until it is killed: ``killed_postgres_job.py ADDRESS CHECKPOINTS NUMBERS GATE``.

The file GATE says how many numbers may come so far. A job that has written them waits.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onceproof.engine import (
    Configuration,
    JdbcConnectionOptions,
    PostgresSink,
    PostgresUpsertSink,
    PostgresWriteAheadSink,
    Source,
    SplitReader,
    StreamExecutionEnvironment,
)

SPLITS = 2
KEYS = 50
SECONDS_PER_NUMBER = 0.0005
"""Leaves the faults something to strike."""


class GatedNumbers(Source):
    """The numbers before an end, as far as the gate lets them come."""

    is_bounded = True

    def __init__(self, end: int, gate: Path) -> None:
        self._end = end
        self._gate = gate

    def splits(self) -> Sequence[str]:
        """Return a split for each remainder."""
        return [str(remainder) for remainder in range(SPLITS)]

    def open_split(self, split: str, position: Any | None) -> GatedReader:
        """Return a reader of the numbers with a remainder."""
        return GatedReader(int(split) if position is None else position, self._end, self._gate)


class GatedReader(SplitReader):
    """Reads every n-th number."""

    retry_ms = 20

    def __init__(self, following: int, end: int, gate: Path) -> None:
        self._end = end
        self._gate = gate
        self._following = following

    def read(self, limit: int) -> list[tuple[Any, int | None]]:
        """Return numbers that may come."""
        open_to = min(self._end, int(self._gate.read_text()))
        numbers = range(self._following, open_to, SPLITS)[:limit]
        self._following += SPLITS * len(numbers)
        time.sleep(SECONDS_PER_NUMBER * len(numbers))
        return [((number, number % KEYS), None) for number in numbers]

    @property
    def position(self) -> int:
        """The next number."""
        return self._following

    @property
    def exhausted(self) -> bool:
        """Whether the end is reached."""
        return self._following >= self._end


def main(address: str, checkpoints: str, numbers: int, gate: str) -> None:
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
    environment.set_parallelism(SPLITS)
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(address)
    options = builder.with_request_timeout_ms(2000).build()
    stream = environment.from_source(GatedNumbers(numbers, Path(gate)), None, "numbers")
    columns = ["n", "key"]
    stream.sink_to(PostgresSink(options, "numbers", columns, batch_rows=20)).name("prepared").uid("prepared")
    ahead = PostgresWriteAheadSink(options, "sent", columns, ledger="sent_ledger")
    stream.sink_to(ahead).name("ahead").uid("ahead")
    latest = stream.map(lambda row: (row[1], row[0])).key_by(lambda row: row[0])
    latest.sink_to(PostgresUpsertSink(options, "latest", ["key", "n"])).name("latest").uid("latest")
    environment.execute("numbers")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
