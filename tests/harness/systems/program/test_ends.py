"""Programs with topics of Kafka or tables of PostgreSQL at their ends, under kills of program and server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.history import ATTEMPT_STARTED, FAULT_FIRED, LOGGED, ROWS_FOUND
from onceproof.harness.model.scenario import Fault
from onceproof.harness.services.kafka_broker import KafkaBroker
from onceproof.harness.services.object_store_server import ObjectStoreServer
from onceproof.harness.services.postgres_server import PostgresServer
from onceproof.harness.systems.process.trial_servers import TrialKafka, TrialObjectStore, TrialPostgres
from onceproof.harness.systems.program.ends import ProgramServers
from onceproof.harness.systems.program.system import CommandSystem
from tests.harness.systems.program.programs import events_of, measured, program, tried

pytestmark = pytest.mark.local_kill

ROOT = Path(__file__).parents[4]
KAFKA_PAGE = ROOT / "engine" / "docs" / "kafka.md"
LOADS = """
    import json, os, sys, time
    import psycopg
    given = sys.argv[1] + "/numbers.jsonl"
    while True:
        try:
            with psycopg.connect(sys.argv[3]) as connection:
                [(done,)] = connection.execute("SELECT done FROM progress").fetchall()
                connection.commit()
                while True:
                    lines = [line for line in open(given) if line.endswith("\\n")][done:]
                    if lines:
                        for line in lines:
                            connection.execute("INSERT INTO numbers VALUES (%s)", [json.loads(line)["id"]])
                        done += len(lines)
                        BETWEEN
                        connection.execute("UPDATE progress SET done = %s", [done])
                        connection.commit()
                    time.sleep(0.01)
        except psycopg.OperationalError:
            time.sleep(0.05)
"""
"""Stores rows and its progress; what stands for BETWEEN decides whether in one transaction."""
TABLES = """
[input]
kind = "files"
[output]
kind = "postgres"
table = "numbers"
columns = ["id"]
create = ["CREATE TABLE numbers (id bigint, at timestamptz DEFAULT now())",
    "CREATE TABLE progress (done bigint)", "INSERT INTO progress VALUES (0)"]
[done]
quiet_seconds = 300
most_seconds = 600
"""


FORWARDS = """
    import io, json, struct, sys, time
    from confluent_kafka import Consumer, Producer, TopicPartition
    from fastavro import parse_schema, schemaless_reader
    servers, given, written = sys.argv[3], sys.argv[1], sys.argv[2]
    schema = parse_schema(json.load(open(sys.argv[4])))
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(given, 0, 0)])
    while True:
        message = consumer.poll(0.1)
        if message is not None and not message.error():
            record = schemaless_reader(io.BytesIO(message.value()), schema, None)
            headers = dict(message.headers())
            assert (message.key(), headers["origin"]) == (record["key"].encode(), b"test of k0"), headers
            producer.produce(written, struct.pack(">q", record["at"]), key=str(record["id"]).encode())
            producer.flush()
"""
"""Writes the time of each record of Avro as 8 bytes, and its number as the key."""
SCHEMA = {
    "type": "record",
    "name": "Number",
    "fields": [
        {"name": name, "type": kind} for name, kind in (("id", "long"), ("key", "string"), ("at", "long"))
    ],
}
TOPICS = """
[input]
kind = "kafka"
topic = "numbers"
format = "avro"
schema = "number.avsc"
timestamp = "at"
key = "key"
headers = { origin = "test of {key}" }
[output]
kind = "kafka"
topic = "times"
format = "bytes"
key = "id"
[done]
quiet_seconds = 300
most_seconds = 600
"""
TIMES = """
from onceproof import Workload
record_schema = "id BIGINT, key STRING"
row_schema = "id BIGINT, at BIGINT"
def generate(random):
    return Workload({"numbers": [(n, (n, "k0")) for n in range(6)]})
def expected(records, declared):
    return [(value[0], at) for at, value in records["numbers"]]
"""
EACH_ONCE = """
    import json, os, sys, time
    def keep(number):
        path = f"{sys.argv[2]}/{number}.jsonl"
        if not os.path.exists(path):
            with open(sys.argv[2] + "/.new", "w") as file:
                file.write(json.dumps({"id": number}) + "\\n")
            os.replace(sys.argv[2] + "/.new", path)
"""
SELECTS = (
    EACH_ONCE
    + """
    import psycopg
    while True:
        try:
            with psycopg.connect(sys.argv[3]) as connection:
                for [number] in connection.execute(f"SELECT id FROM {sys.argv[1]}"):
                    keep(number)
        except psycopg.OperationalError:
            pass
        time.sleep(0.02)
"""
)
DOWNLOADS = (
    EACH_ONCE
    + """
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.session import Session
    bucket, _, prefix = sys.argv[1].removeprefix("s3://").partition("/")
    assert os.environ["AWS_ENDPOINT_URL"] == sys.argv[3]
    client = Session().create_client("s3")
    while True:
        try:
            for each in client.list_objects_v2(Bucket=bucket, Prefix=prefix + "/").get("Contents", ()):
                content = client.get_object(Bucket=bucket, Key=each["Key"])["Body"].read()
                for line in content.splitlines():
                    keep(json.loads(line)["id"])
        except (BotoCoreError, ClientError):
            pass
        time.sleep(0.02)
"""
)
UPLOADS = """
    import sys, time
    from botocore.session import Session
    given = sys.argv[1] + "/numbers.jsonl"
    bucket, _, prefix = sys.argv[2].removeprefix("s3://").partition("/")
    client = Session().create_client("s3")
    done = len(client.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", []))
    while True:
        for line in [line for line in open(given) if line.endswith("\\n")][done:]:
            name = f"{prefix}/day=1/NAME.jsonl"
            client.put_object(Bucket=bucket, Key=name, Body=line.encode())
            done += 1
        time.sleep(0.01)
"""
"""Makes an object of each line; what stands for NAME decides whether it may come twice."""
INTO_OBJECTS = """
[input]
kind = "files"
[output]
kind = "s3"
pattern = "**/*.jsonl"
[done]
quiet_seconds = 300
most_seconds = 600
"""
INTO_FILES = """
[output]
kind = "files"
[done]
quiet_seconds = 300
most_seconds = 600
"""
GIVEN_ROWS = f"""
[input]
kind = "postgres"
table = "given"
timestamp = "at"
create = ["CREATE TABLE {{input}} (id bigint, key text, at bigint)"]
{INTO_FILES}"""
GIVEN_OBJECTS = f"""
[input]
kind = "s3"
records = 4
{INTO_FILES}"""


@pytest.fixture
def kafka(kafka_broker: KafkaBroker) -> Iterator[CommandSystem]:
    system = CommandSystem(servers=ProgramServers(kafka=TrialKafka(kafka_broker)))
    yield system
    system.close()


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> Iterator[CommandSystem]:
    system = CommandSystem(servers=ProgramServers(postgres=TrialPostgres(postgres_server)))
    yield system
    system.close()


@pytest.fixture
def s3(object_store_server: ObjectStoreServer) -> Iterator[CommandSystem]:
    system = CommandSystem(servers=ProgramServers(s3=TrialObjectStore(object_store_server)))
    yield system
    system.close()


def with_server(path: Path, name: str) -> Path:
    """Let the command of a program end with the address of a server."""
    path.write_text(path.read_text().replace('"{output}"]', f'"{{output}}", "{{{name}}}"]'))
    return path


def loader(folder: Path, between: str) -> Path:
    return with_server(program(folder, LOADS.replace("BETWEEN", between), TABLES), "postgres")


@pytest.fixture
def kafka_page(tmp_path: Path) -> Path:
    """The file of the job of the page about Kafka, with all that stands beside it."""
    text = KAFKA_PAGE.read_text(encoding="utf-8")
    names = {"python": ["topics.py", "counts.py", "oracle.py"], "toml": ["counts.toml"]}
    for language, files in names.items():
        blocks = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
        for file, block in zip(files, blocks, strict=True):
            (tmp_path / file).write_text(block, encoding="utf-8")
    return tmp_path / "counts.toml"


def _changed(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1
    return text.replace(old, new)


FIRST_FOUR = """
import itertools
import os
import time

number = itertools.count()


def first_four(word):
    if next(number) >= 4 and os.environ["START"] == "1":
        time.sleep(600)
    return word


"""
WORDS = {"words": [(n, f"word{n % 2}") for n in range(8)]}


def test_the_job_of_the_page_about_kafka_repeats_rows_at_least_once(
    kafka: CommandSystem, kafka_page: Path
) -> None:
    # No checkpoint is complete when the first rows are seen, so the job reads its input again. Its first
    # start waits for the kill after four words; the other rows come from a start that has repeated these.
    measured(kafka_page, kafka, records=WORDS)
    file = kafka_page.read_text(encoding="utf-8")
    kafka_page.write_text(_changed(file, "GUARANTEE =", 'START = "{start}", GUARANTEE ='), encoding="utf-8")
    job = kafka_page.with_name("counts.py")
    text = _changed(
        job.read_text(encoding="utf-8"), "enable_checkpointing(500)", "enable_checkpointing(600_000)"
    )
    text = _changed(text, "lambda word: (word, 1)", "lambda word: (first_four(word), 1)")
    job.write_text(FIRST_FOUR + text, encoding="utf-8")
    kill = Fault("kill_process", "committed")
    _, verdict = tried(kafka_page, kafka, records=WORDS, faults=(kill,))
    assert verdict.signature == ("exactly_once", "duplicated")


def test_the_job_of_the_page_about_kafka_is_exactly_once_under_kills(
    kafka: CommandSystem, kafka_page: Path
) -> None:
    file = kafka_page.read_text(encoding="utf-8").replace("AT_LEAST_ONCE", "EXACTLY_ONCE")
    kafka_page.write_text(file, encoding="utf-8")
    faults = (
        Fault("kill_process", "committed", occurrence=2),
        Fault("kill_process", "restored", occurrence=2, delay=120),
    )
    history, verdict = tried(kafka_page, kafka, records=WORDS, faults=faults)
    assert verdict.passed, verdict.violations
    assert len(events_of(history, FAULT_FIRED)) == len(faults)


def test_rows_and_progress_in_one_transaction_survive_kills(postgres: CommandSystem, tmp_path: Path) -> None:
    faults = (
        Fault("kill_process", "committed", occurrence=2),
        Fault("kill_server", "element", occurrence=3, delay=50, server="postgres"),
        Fault("cut_connection", "element", occurrence=4, means="answer", server="postgres"),
        Fault("kill_process", "restored", occurrence=2, delay=60),
    )
    history, verdict = tried(loader(tmp_path, "pass"), postgres, faults=faults)
    assert verdict.passed, verdict.violations
    assert len(events_of(history, FAULT_FIRED)) == 4


def test_rows_that_are_committed_before_progress_are_repeated(
    postgres: CommandSystem, tmp_path: Path
) -> None:
    # Noted before the commit: the kill may come right behind it.
    waits_for_its_kill = """is_first = not os.path.exists(sys.argv[1] + "/first")
                        open(sys.argv[1] + "/first", "w").close()
                        connection.commit()
                        if is_first:
                            time.sleep(600)"""
    measured(loader(tmp_path, "connection.commit()"), postgres)
    path = loader(tmp_path, waits_for_its_kill)
    _, verdict = tried(path, postgres, faults=(Fault("kill_process", "committed"),))
    assert verdict.signature == ("exactly_once", "duplicated")


@pytest.mark.parametrize("mark", ["transaction_open", "transaction_committing"])
def test_a_kill_at_a_transaction_strikes_before_its_next_message(
    postgres: CommandSystem, tmp_path: Path, mark: str
) -> None:
    kill = Fault("kill_process", "mark", mark=mark)
    path = loader(tmp_path, "pass")
    measured(path, postgres)
    assert postgres.measured[str(path)].marks == ("transaction_open", "transaction_committing")
    history, verdict = tried(path, postgres, faults=(kill,))
    assert verdict.passed, verdict.violations
    kinds = [kind for _, kind, _, _ in history.events]
    assert kinds.index(FAULT_FIRED) < kinds.index(ROWS_FOUND)
    assert kinds.count(ATTEMPT_STARTED) == 2


PREPARES = """
    import json, sys, time
    import psycopg
    given = sys.argv[1] + "/numbers.jsonl"
    with psycopg.connect(sys.argv[3], autocommit=True) as connection:
        AFTER
        [(done,)] = connection.execute("SELECT count(*) FROM numbers").fetchall()
        while True:
            for line in [line for line in open(given) if line.endswith("\\n")][done:]:
                connection.execute("BEGIN")
                connection.execute("INSERT INTO numbers VALUES (%s)", [json.loads(line)["id"]])
                connection.execute(f"PREPARE TRANSACTION 'row-{done}'")
                connection.execute(f"COMMIT PREPARED 'row-{done}'")
                done += 1
            time.sleep(0.01)
"""
"""Commits each row in two phases; what stands for AFTER decides what becomes of one that was prepared."""
COMMITS = """for name, in connection.execute("SELECT gid FROM pg_prepared_xacts").fetchall():
            connection.execute(f"COMMIT PREPARED '{name}'")"""


@pytest.mark.parametrize(("after", "found"), [(COMMITS, []), ("pass", ["job failed"])])
def test_a_transaction_that_is_prepared_outlives_a_kill(
    postgres: CommandSystem, tmp_path: Path, after: str, found: list[str]
) -> None:
    path = with_server(program(tmp_path, PREPARES.replace("AFTER", after), TABLES), "postgres")
    kill = Fault("kill_process", "mark", occurrence=3, mark="transaction_prepared")
    measured(path, postgres)
    history, verdict = tried(path, postgres, faults=(kill,))
    assert [each.anomaly for each in verdict.violations] == found
    assert len(events_of(history, FAULT_FIRED)) == 1
    left = [subject for subject, _ in events_of(history, LOGGED)]
    assert left == (["prepared transaction: row-2"] if found else [])


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ('columns = ["id"]', 'columns = ["number"]', r'output\.table: column "number" does not exist'),
        (
            "CREATE TABLE progress",
            "CREATE TABEL progress",
            r'output\.create\[1\]: syntax error at or near "TABEL"',
        ),
    ],
)
def test_a_mistake_about_a_table_is_one_line(
    postgres: CommandSystem, tmp_path: Path, before: str, after: str, line: str
) -> None:
    path = loader(tmp_path, "pass")
    path.write_text(path.read_text().replace(before, after))
    with pytest.raises(FamilyError, match=rf"job\.toml: {line}"):
        tried(path, postgres)


def test_topics_with_fixed_names_hold_keys_headers_and_avro(kafka: CommandSystem, tmp_path: Path) -> None:
    (tmp_path / "number.avsc").write_text(json.dumps(SCHEMA))
    (tmp_path / "oracle.py").write_text(TIMES)
    path = with_server(program(tmp_path, FORWARDS, TOPICS, begin='oracle = "oracle.py"'), "kafka")
    path.write_text(path.read_text().replace('"{kafka}"', '"{kafka}", "{here}/number.avsc"'))
    for _ in range(2):
        # The second trial finds none of the messages of the first.
        _, verdict = tried(path, kafka)
        assert verdict.passed, verdict.violations


def test_records_are_rows_inserted_into_a_table_of_postgres(postgres: CommandSystem, tmp_path: Path) -> None:
    faults = (
        Fault("kill_process", "committed", occurrence=2),
        Fault("kill_server", "element", occurrence=3, delay=50, server="postgres"),
    )
    path = with_server(program(tmp_path, SELECTS, GIVEN_ROWS), "postgres")
    history, verdict = tried(path, postgres, faults=faults)
    assert verdict.passed, verdict.violations
    assert len(events_of(history, FAULT_FIRED)) == 2


def test_records_are_objects_of_a_store(s3: CommandSystem, tmp_path: Path) -> None:
    kill = Fault("kill_process", "committed", occurrence=2)
    path = with_server(program(tmp_path, DOWNLOADS, GIVEN_OBJECTS), "s3")
    _, verdict = tried(path, s3, faults=(kill,))
    assert verdict.passed, verdict.violations


def test_rows_are_lines_of_objects_below_an_address(s3: CommandSystem, tmp_path: Path) -> None:
    path = program(tmp_path, UPLOADS.replace("NAME", "{done:06}"), INTO_OBJECTS)
    measured(path, s3)
    history, verdict = tried(path, s3, faults=(Fault("kill_process", "committed", occurrence=2),))
    assert verdict.passed, verdict.violations
    assert len(events_of(history, ATTEMPT_STARTED)) == 2
    # A start that counts no objects makes them again. The first one waits for its kill after two.
    waits = "time.sleep(0 if done < 2 or os.path.exists('second') else 600)"
    text = UPLOADS.replace("NAME", "{done}-{time.time_ns()}").replace("import sys", "import os, sys")
    text = text.replace("done = len(", "done = 0 * len(").replace("done += 1", f"done += 1; {waits}")
    restart = '[hooks]\nbefore_restart = ["touch", "second"]\n'
    program(tmp_path, text, INTO_OBJECTS + restart)
    _, verdict = tried(path, s3, faults=(Fault("kill_process", "committed", occurrence=2),))
    assert verdict.signature == ("exactly_once", "duplicated")
