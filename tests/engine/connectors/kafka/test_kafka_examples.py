"""The examples for Kafka in PyFlink's wheel run; their imports and the address of the broker are changed."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from onceproof.harness.services.kafka_broker import KafkaBroker
from tests.engine.connectors.kafka.topics import committed_messages
from tests.engine.pyflink_wheel import examples
from tests.engine.test_pyflink_examples import WITH_KAFKA, changed
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.local_kill

GREETINGS = [f"{number},{word}" for number, word in enumerate(["hi", "hello"] * 3, 1)] + ["6,hello"]
ROWS = [f"+I[{greeting}]" for greeting in GREETINGS]
COUNTRIES = [f'{{"id": {n}, "country": "{name}"}}' for n, name in enumerate(("USA", "Canada", "Germany"), 1)]
READ = {
    "connectors/kafka_avro_format.py": ("test_avro_topic", ROWS),
    "connectors/kafka_bytearray_format.py": ("test_bytearray_topic", COUNTRIES),
    "connectors/kafka_csv_format.py": ("test_csv_topic", ROWS),
    "connectors/kafka_json_format.py": ("test_json_topic", ROWS),
}
"""By example, its topic, and what it prints of what it has read."""
WRITTEN = "connectors/kafka_row_field_extractor_example.py"


def program(example: str, folder: Path, broker: KafkaBroker, topic: str) -> list[str]:
    """Make the topic and write the program; return the command that runs it."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_SECONDS)
    path = folder / Path(example).name
    path.write_text(changed(examples()[example]).replace("localhost:9092", broker.address))
    return [sys.executable, "-u", str(path)]


def test_every_example_for_kafka_is_tried() -> None:
    assert sorted([*READ, WRITTEN]) == sorted(WITH_KAFKA)


@pytest.mark.parametrize("example", READ)
def test_example_reads_from_kafka_what_it_has_written(
    kafka_broker: KafkaBroker, tmp_path: Path, example: str
) -> None:
    topic, expected = READ[example]
    output = tmp_path / "output"
    with output.open("wb") as file:
        process = subprocess.Popen(
            program(example, tmp_path, kafka_broker, topic),
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=tmp_path,
            start_new_session=True,
        )
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while len(
                shown := re.findall(r"^(?:\d> )?((?:\+I\[|\{\"id\").*)$", output.read_text(), re.M)
            ) < len(expected):
                assert process.poll() is None, output.read_text()
                assert time.monotonic() < deadline, output.read_text()
                time.sleep(0.05)
            # It reads for ever.
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE_SECONDS)
        finally:
            process.kill()
            process.wait()
    assert shown == expected


def test_example_writes_fields_of_rows_as_keys_and_values(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    command = program(WRITTEN, tmp_path, kafka_broker, "row-extractor-example")
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert ended.returncode == 0, ended.stderr
    messages = committed_messages(kafka_broker.address, "row-extractor-example", 4)
    assert [message.key() for message in messages] == [b"user-001", b"user-002", b"user-001", b"user-003"]
    assert all(message.value().startswith(b'{"type": "') for message in messages)
