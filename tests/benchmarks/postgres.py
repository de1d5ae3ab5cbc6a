"""How many rows a second reach a table of PostgreSQL exactly once, beside a bare COPY of the same rows.

The rules this module lives by:

- The case: rows of a number and a word through `PostgresSink`, with a checkpoint every second, in one subtask
  and in two. The server is one of its own on this machine, and syncs its disk as usual.
- The floor is one connection that copies the same rows, with psycopg as well, and commits once. It takes
  turns with the jobs, round by round, and the best round counts. Seconds are those of the wall, because the
  server works, too.
- Beside them stand the rows for each second of this process's CPU, without the server's: they say what the
  engine adds to a COPY also on a machine that has other work.
- Each table is counted before the figures are given. A job that loses or repeats rows gives no figure.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from onceproof.engine.api.datastream import StreamExecutionEnvironment
from onceproof.engine.configuration import Configuration
from onceproof.engine.connectors.jdbc.jdbc_options import JdbcConnectionOptions
from onceproof.engine.connectors.postgres.postgres_sinks import PostgresSink
from onceproof.engine.connectors.source import Source
from onceproof.engine.elements import Record
from onceproof.engine.extras import POSTGRES, POSTGRES_SERVER, require
from onceproof.harness.reporting.report_builder import machine_text
from onceproof.harness.services.postgres_server import PostgresServer
from tests.benchmarks.local import POOL, PoolReader, WrongCount
from tests.benchmarks.measurement import Measurement

ROWS: Final = 2_000_000
ROUNDS: Final = 3
WORDS: Final = 7
INTERVAL_MS: Final = 1000
PARALLELISMS: Final = (1, 2)
TABLE: Final = "rows"


class Seconds(NamedTuple):
    """On the wall, and of this process's CPU."""

    wall: float
    cpu: float


class RowSource(Source):
    """The rows of a pool again and again, a share of them for each split."""

    def __init__(self, rows: int, splits: int) -> None:
        self.pool: list[Record] = [((number, f"w{number % WORDS}"), None) for number in range(POOL)]
        self._rows = rows
        self._splits = splits

    def splits(self) -> Sequence[str]:
        """Return one split for each subtask."""
        return [f"share-{index}" for index in range(self._splits)]

    def open_split(self, split: str, position: Any | None) -> PoolReader:
        """Return a reader that starts at ``position``."""
        return PoolReader(self.pool, position or 0, self._rows // self._splits)


def measure(rows: int = ROWS, rounds: int = ROUNDS, server: PostgresServer | None = None) -> Measurement:
    """Return the rows a second of the jobs and of a bare COPY; None: on a server that is started for it."""
    require("the benchmark postgres", POSTGRES, POSTGRES_SERVER)
    if server is not None:
        return _measured(server.address, rows, rounds)
    with tempfile.TemporaryDirectory(prefix="onceproof-bench-") as name:
        Path(name).chmod(0o755)
        own = PostgresServer(Path(name), settings={"max_wal_size": "4GB"}, dies_with_parent=True)
        own.start()
        try:
            return _measured(own.address, rows, rounds)
        finally:
            own.stop()


def _measured(address: str, rows: int, rounds: int) -> Measurement:
    floors: list[Seconds] = []
    jobs: dict[int, list[Seconds]] = {parallelism: [] for parallelism in PARALLELISMS}
    checkpoints = 0
    for _ in range(rounds):
        floors.append(_copy_seconds(address, rows))
        for parallelism in PARALLELISMS:
            seconds, checkpoints = _job_seconds(address, rows, parallelism)
            jobs[parallelism].append(seconds)
    figures: dict[str, float] = {"rows": rows, "checkpoints": checkpoints}
    ratios: dict[str, float] = {}
    floor = _best(floors)
    for parallelism, measured in jobs.items():
        best = _best(measured)
        for name, ours, other in (
            (f"rows_per_second_{parallelism}_subtasks", best.wall, floor.wall),
            (f"rows_per_cpu_second_{parallelism}_subtasks", best.cpu, floor.cpu),
        ):
            figures[name] = round(rows / ours)
            ratios[name] = round(other / ours, 3)
    floor_figures: dict[str, float] = {
        "rows_per_second": round(rows / floor.wall),
        "rows_per_cpu_second": round(rows / floor.cpu),
    }
    return Measurement("postgres", figures, floor_figures, ratios, machine_text())


def _best(measured: Sequence[Seconds]) -> Seconds:
    """Return the best of each kind: other work on the machine only adds."""
    return Seconds(min(each.wall for each in measured), min(each.cpu for each in measured))


def _empty_table(address: str) -> Any:
    """Return a session with an empty table, which no earlier round is still being written to disk for."""
    import psycopg

    connection = psycopg.connect(address, autocommit=True)
    connection.execute("SET client_min_messages = warning")
    connection.execute(f"DROP TABLE IF EXISTS {TABLE}")
    connection.execute(f"CREATE TABLE {TABLE} (n bigint, word text)")
    connection.execute("CHECKPOINT")
    return connection


def _copy_seconds(address: str, rows: int) -> Seconds:
    """Return the seconds of one COPY of the rows, commit included."""
    with _empty_table(address) as connection:
        reader = RowSource(rows, 1).open_split("", None)
        started, cpu = time.perf_counter(), time.process_time()
        with connection.cursor().copy(f"COPY {TABLE} (n, word) FROM STDIN") as copy:
            while batch := reader.read(1000):
                for row, _ in batch:
                    copy.write_row(row)
        seconds = Seconds(time.perf_counter() - started, time.process_time() - cpu)
        _check(connection, rows)
    return seconds


def _job_seconds(address: str, rows: int, parallelism: int) -> tuple[Seconds, int]:
    """Return the seconds of the job, and how many checkpoints it completed."""
    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(address).build()
    with _empty_table(address) as connection, tempfile.TemporaryDirectory() as folder:
        settings = {
            "execution.checkpointing.interval": f"{INTERVAL_MS} ms",
            "execution.checkpointing.dir": folder,
            "parallelism.default": parallelism,
        }
        environment = StreamExecutionEnvironment(Configuration.from_mapping(settings))
        stream = environment.from_source(RowSource(rows, parallelism), None, "rows")
        stream.sink_to(PostgresSink(options, TABLE, ["n", "word"])).name("table")
        started, cpu = time.perf_counter(), time.process_time()
        result = environment.execute("bench postgres")
        seconds = Seconds(time.perf_counter() - started, time.process_time() - cpu)
        _check(connection, rows)
    return seconds, result.checkpoints


def _check(connection: Any, rows: int) -> None:
    """Raise WrongCount unless the table has each row, and no transaction is left."""
    expected = sum(number % POOL for number in range(POOL)) * (rows // POOL)
    [(count, total)] = connection.execute(f"SELECT count(*), sum(n) FROM {TABLE}").fetchall()
    left = connection.execute("SELECT count(*) FROM pg_prepared_xacts").fetchone()
    if count != rows or (rows % POOL == 0 and total != expected) or left != (0,):
        raise WrongCount(
            f"the table has {count:,} rows of {rows:,} with sum {total}, and {left[0]} transactions are"
            " prepared"
        )
