"""The examples for streams in PyFlink's wheel run with their imports changed, and print what Flink prints.

Their output is compared with recordings of real Flink, where it does not depend on chance. What needs a
server is in ``NEEDS_A_SERVER``. What waits for names that the engine lacks is in ``LACKS``, and must leave it
when they are there.
"""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceproof import engine
from tests.conformance.recordings import assert_as_on_flink, recorded_programs, recordings
from tests.engine.pyflink_wheel import examples
from tests.patience import PATIENCE_SECONDS

NEEDS_A_SERVER = {
    "connectors/elasticsearch.py": "writes to Elasticsearch, for which there is no connector",
    "connectors/pulsar.py": "reads and writes topics of Apache Pulsar, for which there is no connector",
}
WITH_KAFKA = (
    "connectors/kafka_avro_format.py",
    "connectors/kafka_bytearray_format.py",
    "connectors/kafka_csv_format.py",
    "connectors/kafka_json_format.py",
    "connectors/kafka_row_field_extractor_example.py",
)
"""Tried by tests/engine/connectors/kafka/test_kafka_examples.py."""
LACKS: dict[str, set[str]] = {}

IMPORT = re.compile(r"^( *from )pyflink[\w.]*( import )", re.MULTILINE)
REMARKS = ("Printing result to stdout.", "Executing word_count", "Use --input")
"""What the programs say about themselves."""


def changed(text: str) -> str:
    return IMPORT.sub(r"\1onceproof.engine\2", text)


def literal(name: str, of: str) -> list[str]:
    """The value of a global list of a program."""
    for node in ast.parse(examples()[of]).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return list(ast.literal_eval(node.value))
    raise AssertionError(f"{of} has no list {name}")


COMPARED = [program.removeprefix("wheel/") for program in recorded_programs("wheel")]
TO_FILES = ("windowing/tumbling_count_window.py", "word_count.py")


def words_count_on(lines: list[str]) -> None:
    """Each word of the program's list is counted from 1 on."""
    known = literal("words", "streaming_word_count.py")
    counts: Counter[str] = Counter()
    for line in lines:
        word, count = line.removeprefix("(").removesuffix(")").split(",")
        counts[word] += 1
        assert word in known
        assert int(count) == counts[word]


def comments_are_analysed(lines: list[str]) -> None:
    """Each line is the answer to a request, or what its time-out gives."""
    for line in lines:
        answer = json.loads(line)
        assert set(answer) == {"user_id", "comments", "analysis_result"}
        assert answer["analysis_result"] in ("positive", None)
        assert re.fullmatch("[0-9a-f]{100}", answer["comments"])


ENDLESS = {
    "asyncio/remote_model_inference.py": comments_are_analysed,
    "streaming_word_count.py": words_count_on,
}


def lacks(example: str) -> set[str]:
    """The names that an example imports from PyFlink and the engine does not have."""
    found = set()
    for node in ast.walk(ast.parse(examples()[example])):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyflink"):
            found.update(each.name for each in node.names if not hasattr(engine, each.name))
    return found


def program(example: str, folder: Path) -> list[str]:
    if lacks(example):
        pytest.skip(f"{example} needs {', '.join(sorted(lacks(example)))}, which the engine lacks so far")
    path = folder / Path(example).name
    path.write_text(changed(examples()[example]))
    return [sys.executable, "-u", "-W", "error", str(path)]


def printed(example: str, folder: Path, *arguments: str) -> list[str]:
    """Run an example and return the lines that it prints about its data."""
    command = [*program(example, folder), *arguments]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, cwd=folder, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return [line for line in ended.stdout.splitlines() if not line.startswith(REMARKS)]


def test_table_names_all_examples_of_the_wheel() -> None:
    assert sorted(examples()) == sorted([*COMPARED, *ENDLESS, *WITH_KAFKA, *NEEDS_A_SERVER])
    assert len(examples()) == 19


@pytest.mark.parametrize("example", NEEDS_A_SERVER)
def test_example_that_is_left_out_needs_a_server(example: str) -> None:
    assert re.search(r"^from pyflink\S*connectors.(pulsar|elasticsearch) ", examples()[example], re.M)


def test_names_that_examples_still_lack_are_listed() -> None:
    lacking = {each: names for each in (*COMPARED, *ENDLESS, *WITH_KAFKA) if (names := lacks(each))}
    assert lacking == LACKS


@pytest.mark.parametrize("example", [*COMPARED, *ENDLESS, *WITH_KAFKA])
def test_nothing_but_the_imports_is_changed(example: str) -> None:
    before, after = examples()[example].splitlines(), changed(examples()[example]).splitlines()
    lines = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert lines
    assert all(old.startswith("from pyflink") and new.startswith("from onceproof") for old, new in lines)
    assert "pyflink" not in re.findall(r"^ *import (\w+)", "\n".join(after), re.M)


@pytest.mark.parametrize("example", COMPARED)
def test_example_prints_what_flink_prints(example: str, tmp_path: Path) -> None:
    assert_as_on_flink(f"wheel/{example}", printed(example, tmp_path))


@pytest.mark.parametrize("example", TO_FILES)
def test_example_writes_the_same_lines_to_files(example: str, tmp_path: Path) -> None:
    output = tmp_path / "output"
    assert printed(example, tmp_path, "--output", str(output)) == []
    parts = [path for path in output.rglob("*") if path.is_file()]
    assert parts
    assert all(path.name.startswith("prefix") and path.suffix == ".ext" for path in parts)
    lines = [line for path in parts for line in path.read_text().splitlines()]
    assert sorted(lines) == sorted(recordings()[f"wheel/{example}", 1].output)


@pytest.mark.parametrize("example", ENDLESS)
def test_endless_example_runs_until_it_is_interrupted(example: str, tmp_path: Path) -> None:
    lines = _first_lines(program(example, tmp_path), tmp_path, 12)
    assert len(lines) >= 12
    ENDLESS[example](lines)


def _first_lines(command: list[str], folder: Path, count: int) -> list[str]:
    """Return what a program prints about its data up to so many lines, and end it as Ctrl-C does."""
    errors = folder / "errors"
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=stderr, text=True, cwd=folder, start_new_session=True
        )
        try:
            lines = list(_data_lines(process, count))
            assert lines, errors.read_text()
            os.kill(process.pid, signal.SIGINT)
            process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            process.kill()
            process.wait()
    return lines


def _data_lines(process: subprocess.Popen[str], count: int) -> Iterator[str]:
    assert process.stdout is not None
    until = time.monotonic() + PATIENCE_SECONDS
    while count and time.monotonic() < until and (line := process.stdout.readline()):
        if not line.startswith(REMARKS):
            count -= 1
            yield line.rstrip("\n")
