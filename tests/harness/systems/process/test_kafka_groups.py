"""Members of killed programs leave their groups at a real broker, also one that dies at the same time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from onceproof.harness.services.kafka_broker import KafkaBroker
from onceproof.harness.systems.process.kafka_groups import DeadMembers
from onceproof.harness.systems.process.kafka_io import make_topics

pytestmark = pytest.mark.local_kill

HALF_AN_HOUR = "1800000"
"""The longest session that a broker takes: a member that stays keeps the next one waiting for good."""
MEMBER = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({
    "bootstrap.servers": sys.argv[1], "group.id": "readers", "log_level": 0, "reconnect.backoff.max.ms": 200,
    "session.timeout.ms": sys.argv[2], "max.poll.interval.ms": sys.argv[2],
})
consumer.subscribe(["read"], on_assign=lambda *_: print("assigned", flush=True))
while True:
    consumer.poll(0.1)
"""


@contextmanager
def member(broker: KafkaBroker) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that becomes a member, and kill it."""
    command = [sys.executable, "-c", MEMBER, broker.address, HALF_AN_HOUR]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def becomes_a_member(process: subprocess.Popen[bytes]) -> bool:
    assert process.stdout is not None
    return process.stdout.readline() == b"assigned\n"


@pytest.mark.parametrize("broker_dies", [False, True])
def test_a_killed_member_does_not_keep_the_next_one_waiting(
    kafka_broker: KafkaBroker, broker_dies: bool
) -> None:
    make_topics(kafka_broker.address, {"read": 1})
    with closing(DeadMembers(kafka_broker.address)) as members:
        with member(kafka_broker) as first:
            assert becomes_a_member(first)
            if broker_dies:
                kafka_broker.kill()
        members.leave()
        if broker_dies:
            kafka_broker.start()
        with member(kafka_broker) as second:
            assert becomes_a_member(second)
        members.leave()
