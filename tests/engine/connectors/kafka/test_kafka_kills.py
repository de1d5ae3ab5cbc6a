"""Kafka in, Kafka out: nothing is lost or repeated while writer and broker are killed, cut off and paused.

Three faults by default. More of them, with another seed:
``pytest tests/engine/connectors/kafka/test_kafka_kills.py --kills 3000 --kill-seed 7``.

Rows arrive in batches, one for each fault and one more. A fault strikes when a drawn number of rows of its
batch is visible, so that it strikes a job under way on any machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from onceproof.engine.connectors.kafka.broker_transactions import BrokerTransactions
from onceproof.harness.services.cutting_proxy import CuttingProxy
from onceproof.harness.services.kafka_broker import KafkaBroker
from tests.engine.connectors.kafka.killed_kafka_job import (
    KEYS,
    NUMBERS,
    PARTITIONS,
    SUMS,
)
from tests.engine.connectors.kafka.topics import committed_rows, fill
from tests.patience import PATIENCE_SECONDS

PROGRAM = Path(__file__).with_name("killed_kafka_job.py")
FAULTS = ("writer", "broker", "request", "answer", "pause", "both")
FIRST = ("writer", "broker", "answer")
BATCH_ROWS = 200
LONGEST_WAIT_SECONDS = 0.3
"""From a row that becomes visible to the fault: longer than from one checkpoint to the next."""


@pytest.fixture
def proxy(kafka_broker: KafkaBroker) -> Iterator[CuttingProxy]:
    """The proxy through which alone the writer comes to the broker."""
    made = CuttingProxy(kafka_broker.proxied_port, kafka_broker.proxy_port)
    yield made
    made.close()


class Watcher(threading.Thread):
    """A reader of committed rows in another place, which reads on all the time."""

    def __init__(self, servers: str) -> None:
        super().__init__(daemon=True)
        self._ends = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "watcher",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(SUMS, number, 0) for number in range(PARTITIONS)])
        self.seen: Counter[str] = Counter()

    def run(self) -> None:
        while not self._ends.is_set():
            for message in self._consumer.consume(500, 0.1):
                if message.error() is None:
                    self.seen[message.value().decode()] += 1

    def wait_for_rows(self, count: int, writer: subprocess.Popen[bytes] | None = None) -> None:
        """Wait until so many rows are visible, which a writer brings about if one is given."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.seen.total() < count:
            assert writer is None or writer.poll() is None, "the writer has ended"
            assert time.monotonic() < deadline, f"{self.seen.total()} rows are visible, not {count}"
            time.sleep(0.02)

    def stop(self) -> None:
        self._ends.set()
        self.join()
        self._consumer.close()


class Nemesis:
    """Kills, cuts and pauses the two ends of a connection."""

    def __init__(self, broker: KafkaBroker, proxy: CuttingProxy, command: list[str], log: Path) -> None:
        self._broker = broker
        self._proxy = proxy
        self._command = command
        self._log = log
        self.writer = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as output:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, "PYTHONWARNINGS": "ignore"},
            )

    def strike(self, fault: str, random: Random) -> None:
        match fault:
            case "writer" | "both":
                self.writer.kill()
                self.writer.wait()
                if fault == "both":
                    self._broker.kill()
                    self._broker.start()
                self.writer = self._start()
            case "broker":
                self._broker.kill()
                self._broker.start()
            case "pause":
                self._broker.pause()
                time.sleep(0.1 + 2 * random.random())
                self._broker.resume()
            case "request" | "answer":
                self._proxy.cut_next(fault)


def expected(rows: int) -> list[int]:
    """Return how often each key is counted in the end."""
    return [len(range(key, rows, KEYS)) for key in range(KEYS)]


@pytest.mark.local_kill
def test_each_number_is_counted_once_while_both_ends_are_killed(
    kafka_broker: KafkaBroker, proxy: CuttingProxy, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    started = kafka_broker
    kills = max(len(FIRST), pytestconfig.getoption("--kills") // 10)
    random = Random(pytestconfig.getoption("--kill-seed"))
    rows = BATCH_ROWS * (kills + 1)
    admin = AdminClient({"bootstrap.servers": started.address, "log_level": 0})
    for topic in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (NUMBERS, SUMS)]).values():
        topic.result(PATIENCE_SECONDS)
    watcher = Watcher(started.address)
    watcher.start()
    log = tmp_path / "writer.log"
    command = [
        sys.executable,
        str(PROGRAM),
        f"127.0.0.1:{proxy.port}",
        str(tmp_path / "checkpoints"),
        str(rows),
    ]
    nemesis = Nemesis(started, proxy, command, log)
    struck: Counter[str] = Counter()
    for number in range(kills):
        first = number * BATCH_ROWS
        fill(started.address, NUMBERS, map(str, range(first, first + BATCH_ROWS)), PARTITIONS)
        watcher.wait_for_rows(first + 1 + int(random.random() * BATCH_ROWS), nemesis.writer)
        time.sleep(LONGEST_WAIT_SECONDS * random.random())
        # Each end dies once, and a connection is cut; then any of the faults.
        fault = FIRST[number] if number < len(FIRST) else FAULTS[int(random.random() * len(FAULTS))]
        struck[fault] += 1
        nemesis.strike(fault, random)
    fill(started.address, NUMBERS, map(str, range(rows - BATCH_ROWS, rows)), PARTITIONS)
    assert nemesis.writer.wait(PATIENCE_SECONDS) == 0, log.read_text()[-2000:]
    visible = committed_rows(started.address, SUMS, rows)
    watcher.wait_for_rows(rows)
    watcher.stop()
    print(f"{rows} rows, faults {dict(struck)}, {proxy.cuts} connections cut")
    # Nothing that the reader has seen is gone, and nothing came that is not there now.
    assert watcher.seen == Counter(visible)
    assert sorted(int(row.split()[0]) for row in visible) == list(range(rows))
    counts: dict[int, list[int]] = {key: [] for key in range(KEYS)}
    for row in visible:
        number, count = map(int, row.split())
        counts[number % KEYS].append(count)
    assert [sorted(counts[key]) for key in range(KEYS)] == [
        list(range(1, count + 1)) for count in expected(rows)
    ]
    cluster = BrokerTransactions({"bootstrap.servers": started.address})
    left = [each.transactional_id for each in cluster.open_transactions("sums-")]
    assert [name for name in left if has_rows(cluster, name)] == []
    cluster.close()


def has_rows(cluster: BrokerTransactions, transactional_id: str) -> bool:
    """Return whether a transaction is one that readers of committed rows wait for."""
    try:
        return cluster.handle_of_ongoing(transactional_id) is not None
    except OSError:
        return False
