"""A server whose data are put back to an older state: sinks and sources miss what is gone."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from onceproof.engine import (
    Duration,
    JdbcConnectionOptions,
    PostgresGrowingSource,
    PostgresSink,
    PostgresSource,
    PostgresUpsertSink,
    PostgresWriteAheadSink,
)
from onceproof.engine.connectors.jdbc.two_phase_database import LostTransaction
from onceproof.engine.connectors.postgres.table_guard import ReadUpTo, TableReplaced
from onceproof.engine.connectors.source import SplitReader
from onceproof.engine.connectors.upsert_fence import LostRows
from onceproof.engine.extras import POSTGRES, POSTGRES_SERVER
from onceproof.harness.services.postgres_server import PostgresServer
from tests.patience import PATIENCE_SECONDS
from tests.servers import running

ROWS = 100
"""More than the 32 by which a sequence is ahead of its table in a backup."""
MORE = f"INSERT INTO words (word) SELECT 'w' FROM generate_series(1, {ROWS})"


@pytest.fixture
def server() -> Iterator[Any]:
    """A server of its own, which is stopped and put back."""
    with tempfile.TemporaryDirectory(prefix="onceproof-backup-") as name:
        Path(name).chmod(0o755)
        server = PostgresServer(Path(name), settings={"fsync": "off"}, dies_with_parent=True)
        yield from running(server, POSTGRES, POSTGRES_SERVER)


def copied(server: PostgresServer, source: str, target: str) -> None:
    """Copy the data of a server that does not run, with their owner and rights."""
    server.stop()
    subprocess.run(["rm", "-rf", server.folder / target], check=True)
    subprocess.run(["cp", "-a", server.folder / source, server.folder / target], check=True)
    server.start()


def key_read(reader: SplitReader, key: int) -> Any:
    """Read up to a key, and return the position."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while reader.position[0] < key or not ReadUpTo(*reader.position).is_generated:
        assert time.monotonic() < deadline
        reader.read(1000)
    position = reader.position
    reader.close()
    return position


def written(job: Any, first_id: int) -> None:
    """Write a row in each of two checkpoints, and take a third one without any."""
    for checkpoint_id in (first_id, first_id + 1):
        job.functions[0].invoke((checkpoint_id, "x"), None)
        job.snapshot(checkpoint_id)
        if hasattr(job.functions[0], "notify_checkpoint_complete"):
            job.notify(checkpoint_id)
    job.snapshot(first_id + 2)


def test_server_with_the_data_of_an_older_backup_is_noticed_at_every_end(
    server: PostgresServer, sink_job: Callable[..., Any]
) -> None:
    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(server.address).build()
    with psycopg.connect(server.address, autocommit=True) as outside:
        outside.execute("CREATE TABLE words (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, word text)")
        for table in ("appended", "kept", "ahead"):
            outside.execute(f"CREATE TABLE {table} (n bigint PRIMARY KEY, word text)")
        outside.execute(MORE)
    columns = ["n", "word"]
    sinks = {
        PostgresSink(options, "appended", columns): LostTransaction,
        PostgresUpsertSink(options, "kept", columns): LostRows,
        PostgresWriteAheadSink(options, "ahead", columns): LostTransaction,
    }
    jobs = {sink: sink_job(sink.create_function, f"job of {place}") for place, sink in enumerate(sinks)}
    for job in jobs.values():
        job.start(attempt="1.1")
        written(job, 1)
        job.functions[0].close()
    copied(server, "data", "backup")
    for job in jobs.values():
        # The backup has all that the checkpoint covers.
        job.start(restored=3, attempt="2.1")
        written(job, 4)
        job.functions[0].close()
    with psycopg.connect(server.address, autocommit=True) as outside:
        outside.execute(MORE)
    growing = PostgresGrowingSource(options, "words", ["id"], "id", interval=Duration.of_millis(20))
    of_range = PostgresSource(options, "words", ["id"], "id")
    positions = {
        (source, split): key_read(source.open_split(split, None), 2 * ROWS)
        for source, split in ((growing, "growing"), (of_range, f"1 to {2 * ROWS}"))
    }
    copied(server, "backup", "data")
    for sink, error in sinks.items():
        with pytest.raises(error, match="restored from an older backup"):
            jobs[sink].start(restored=6, attempt="3.1")
        jobs[sink].functions[0].close()
    for (source, split), position in positions.items():
        reader = source.open_split(split, position)
        with pytest.raises(TableReplaced, match="restored from an older backup"):
            key_read(reader, 3 * ROWS)
        reader.close()
