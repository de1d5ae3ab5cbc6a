"""Jobs that write to a real server lose and repeat nothing: writer and server killed, cut off and paused.

Six faults by default. More of them, with another seed:
``pytest tests/engine/connectors/postgres/test_postgres_kills.py --kills 3000 --kill-seed 7``.

Numbers come in batches, one for each fault and one more. A fault strikes when a drawn number of rows of its
batch is visible, so that it strikes a job under way on any machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from onceproof.harness.services.cutting_proxy import CuttingProxy
from onceproof.harness.services.postgres_server import PostgresServer
from tests.engine.connectors.postgres.killed_postgres_job import KEYS
from tests.patience import PATIENCE_SECONDS

PROGRAM = Path(__file__).with_name("killed_postgres_job.py")
FAULTS = ("writer", "server", "request", "answer", "pause", "both")
BATCH_ROWS = 300
LONGEST_WAIT_SECONDS = 0.2
"""From a row that becomes visible to the fault: longer than from one checkpoint to the next."""
UNLISTED = """
SELECT count(*), count(DISTINCT n),
 count(*) FILTER (WHERE xmin::text NOT IN (SELECT xmin::text FROM {ledger})) FROM {table}
"""


class Watcher(threading.Thread):
    """Another session, which looks at the tables all the time."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._ends = threading.Event()
        self.looks = 0
        self.problems: list[str] = []
        self.seen: Counter[str] = Counter()

    def run(self) -> None:
        while not self._ends.wait(0.03):
            try:
                with psycopg.connect(self._address, autocommit=True, connect_timeout=2) as connection:
                    while not self._ends.wait(0.03):
                        self._look(connection, self.seen)
            except psycopg.OperationalError:
                continue

    def _look(self, connection: Any, seen: Counter[str]) -> None:
        for table, ledger in (("numbers", "onceproof_ledger"), ("sent", "sent_ledger")):
            question = UNLISTED.format(table=table, ledger=ledger)
            try:
                [(rows, distinct, unlisted)] = connection.execute(question).fetchall()
            except psycopg.errors.UndefinedTable:
                continue
            self.looks += 1
            if rows != distinct or unlisted:
                self.problems.append(f"{table}: {rows} rows, {distinct} differ, {unlisted} of no commit")
            if rows < seen[table]:
                self.problems.append(f"{table}: {seen[table] - rows} committed rows are gone")
            seen[table] = rows

    def wait_for_rows(self, count: int, writer: subprocess.Popen[bytes]) -> None:
        """Wait until so many rows are visible, which a writer brings about."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.seen["numbers"] < count:
            assert writer.poll() is None, "the writer has ended"
            assert time.monotonic() < deadline, f"{self.seen['numbers']} rows are visible, not {count}"
            time.sleep(0.02)

    def stop(self) -> None:
        self._ends.set()
        self.join()


class Nemesis:
    """Kills, cuts and pauses the two ends of a connection."""

    def __init__(self, server: PostgresServer, proxy: CuttingProxy, start: Any) -> None:
        self._server = server
        self._proxy = proxy
        self._start = start
        self.writer: subprocess.Popen[bytes] = start()

    def strike(self, fault: str, random: Random) -> None:
        match fault:
            case "writer" | "both":
                self.writer.kill()
                self.writer.wait()
                if fault == "both":
                    self._server.kill()
                    self._server.start()
                self.writer = self._start()
            case "server":
                self._server.kill()
                self._server.start()
            case "pause":
                self._server.pause()
                time.sleep(random.uniform(0.1, 2.5))
                self._server.resume()
            case "request" | "answer":
                self._proxy.cut_next(fault)


@pytest.mark.local_kill
def test_writer_and_server_may_die_at_any_moment(
    postgres_server: PostgresServer, database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    faults = max(len(FAULTS), request.config.getoption("--kills") // 10)
    random = Random(request.config.getoption("--kill-seed"))
    numbers = BATCH_ROWS * (faults + 1)
    gate = tmp_path / "gate"
    gate.write_text("0")
    with psycopg.connect(database, autocommit=True) as connection:
        for table in ("numbers", "sent"):
            connection.execute(f"CREATE TABLE {table} (n bigint, key bigint)")
        connection.execute("CREATE TABLE latest (key bigint PRIMARY KEY, n bigint)")
    proxy = CuttingProxy(postgres_server.port)
    through = database.replace(f":{postgres_server.port}/", f":{proxy.port}/")
    log = tmp_path / "log"

    def start() -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            arguments = [through, str(tmp_path / "checkpoints"), str(numbers), str(gate)]
            return subprocess.Popen(
                [sys.executable, str(PROGRAM), *arguments],
                stdout=output,
                stderr=output,
                cwd=Path(__file__).parents[4],
            )

    def let_come(count: int) -> None:
        fresh = gate.with_suffix(".new")
        fresh.write_text(str(count))
        fresh.replace(gate)

    watcher = Watcher(database)
    watcher.start()
    nemesis = Nemesis(postgres_server, proxy, start)
    struck = []
    try:
        for number in range(faults):
            first = number * BATCH_ROWS
            let_come(first + BATCH_ROWS)
            watcher.wait_for_rows(first + 1 + int(random.random() * BATCH_ROWS), nemesis.writer)
            time.sleep(LONGEST_WAIT_SECONDS * random.random())
            # Each kind once, then any of them.
            struck.append(FAULTS[number] if number < len(FAULTS) else random.choice(FAULTS))
            nemesis.strike(struck[-1], random)
        let_come(numbers)
        code = nemesis.writer.wait(PATIENCE_SECONDS)
    finally:
        nemesis.writer.kill()
        nemesis.writer.wait()
        watcher.stop()
        proxy.close()
    assert code == 0, log.read_text()[-3000:]
    assert watcher.looks > 10
    assert not watcher.problems, (struck, watcher.problems[:5])
    with psycopg.connect(database, autocommit=True) as connection:
        for table in ("numbers", "sent"):
            found = connection.execute(f"SELECT n FROM {table} ORDER BY n").fetchall()
            assert [n for (n,) in found] == list(range(numbers)), (table, struck)
        latest = connection.execute("SELECT key, n FROM latest ORDER BY key").fetchall()
        assert latest == [(key, numbers - KEYS + key) for key in range(KEYS)], struck
        assert connection.execute("SELECT gid FROM pg_prepared_xacts").fetchall() == [], struck
    assert os.listdir(tmp_path / "checkpoints")
