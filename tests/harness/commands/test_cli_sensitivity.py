"""`onceproof sensitivity`: refused input, and an experiment whose scenarios fail."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from onceproof.harness.commands.cli import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.harness.commands.conftest import Command

# A word count whose counts are not in managed state, so that no checkpoint contains them.
FORGETFUL = '''"""Words, counted in a dict."""

from onceproof.engine import KeyedProcessFunction, Types
from onceproof.scenarios.word_count import *

name = "forgetful words"


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.counts = {}

    def process_element(self, value, ctx):
        self.counts[value] = self.counts.get(value, 0) + 1
        yield value, self.counts[value]


def job(env, io):
    words = env.from_source(io.source("words"), None, "source").uid("source")
    counts = words.set_parallelism(io.source_parallelism).key_by(lambda word: word, Types.STRING())
    counts = counts.process(Count(), Types.TUPLE([Types.STRING(), Types.LONG()])).name("count").uid("count")
    counts = counts.set_parallelism(io.parallelism).key_by(lambda row: row[0], Types.STRING())
    counts.add_sink(io.sink("counts")).name("sink").uid("sink").set_parallelism(io.sink_parallelism)
'''


def test_too_small_experiment_is_refused_with_the_least_number(onceproof: Command) -> None:
    ended = onceproof("sensitivity", "out", "--scenarios", "20")
    assert ended.code == 4
    assert ended.error == (
        "onceproof: --scenarios 20: too few to separate 7 parameters;"
        " use 64 or more (4 at each of 16 points)\n"
    )


def test_experiment_on_a_family_without_with_key_varies_fewer_parameters(onceproof: Command) -> None:
    ended = onceproof("sensitivity", "out", "--family", "tickets", "--scenarios", "8")
    assert ended.code == 4
    assert "too few to separate 4 parameters" in ended.error


def test_folder_with_an_unreadable_report_is_not_changed(onceproof: Command, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.json").write_text("{}", encoding="utf-8")
    ended = onceproof("sensitivity", "out")
    assert ended.code == 4
    assert "name another folder" in ended.error
    assert (tmp_path / "out" / "report.json").read_text(encoding="utf-8") == "{}"


def test_unwritable_folder_is_reported_before_spark_starts(onceproof: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    ended = onceproof("sensitivity", "file/out")
    assert ended.code == 4
    assert "cannot be written to" in ended.error


@pytest.mark.spark
@pytest.mark.slow
def test_failing_designed_scenario_is_shrunk_explained_and_exits_with_1(
    onceproof: Command, spark: SparkSession, tmp_path: Path
) -> None:
    # The command uses the Spark that this process has.
    family, out = tmp_path / "forgetful.py", tmp_path / "out"
    family.write_text(FORGETFUL, encoding="utf-8")

    options = ["--family", str(family), "--scenarios", "64", "--seed", "3", "--json"]
    ended = onceproof("sensitivity", str(out), *options)
    assert ended.code == 1, ended.error
    document = json.loads(ended.out)
    assert document["scenarios"] == 64
    assert document["failed"] > 32
    assert "FAILED forgetful words: exactly_once" in ended.error
    report = json.loads((out / "report.json").read_bytes())
    (failure, *_) = report["failures"]
    assert failure["shrinking"]["after"]["records"] <= 6
    assert failure["takes"].startswith("The failure needs")
    assert report["sensitivity"][0]["failed"] == document["failed"]
    assert "Failed" in (out / "index.html").read_text(encoding="utf-8")
    assert (out / "sensitivity-forgetful_words.parquet").exists()
    # The replay command of the report reproduces the failure.
    assert main(shlex.split(failure["replay"])[1:]) == 1
