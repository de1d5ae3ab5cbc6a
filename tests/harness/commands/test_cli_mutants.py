"""`onceproof mutants` on a user's own job: which mistakes would be caught, and which not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.harness.commands.conftest import Command

TOTALS = """
from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor

ORDERS = [("ada", 5), ("bob", 3), ("ada", 4), ("cy", 1), ("bob", 2), ("ada", 7)]


class Total(KeyedProcessFunction):
    def open(self, context):
        self.total = context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, order, ctx):
        total = (self.total.value() or 0) + order[1]
        self.total.update(total)
        if order[1] == 1_000_000:
            self.total.clear()
        yield order[0], total


env = StreamExecutionEnvironment.get_execution_environment()
keyed = env.from_collection(ORDERS, Types.TUPLE([Types.STRING(), Types.LONG()])).key_by(
    lambda order: order[0], Types.STRING()
)
keyed.process(Total()).print()
env.execute("totals")
"""
IN_AN_ATTRIBUTE = "`self.total` is an attribute that no checkpoint holds"
AT_THE_BOUNDARY = "`order[1] == 1000000` is `order[1] != 1000000`"


def test_mistakes_of_a_program_are_caught_by_its_own_undisturbed_runs(
    onceproof: Command, tmp_path: Path
) -> None:
    (tmp_path / "totals.py").write_text(TOTALS, encoding="utf-8")
    ended = onceproof("mutants", "totals.py", "-n", "1", "--json")
    results = json.loads(ended.out)
    assert {each["mistake"]: each["caught"] for each in results} == {
        IN_AN_ATTRIBUTE: True,
        "`self.total.update(total)` is left out": True,
        AT_THE_BOUNDARY: True,
        "key_by(lambda order: order[0]) gives all records the same key": True,
    }
    assert ended.code == 0
    [lost] = [each for each in results if each["mistake"] == IN_AN_ATTRIBUTE]
    assert lost["line"] == 11
    assert lost["scenarios"] <= 50


def test_a_mistake_that_changes_no_row_is_listed(onceproof: Command, tmp_path: Path) -> None:
    blind = TOTALS.replace("            self.total.clear()\n", "            pass\n")
    (tmp_path / "totals.py").write_text(blind, encoding="utf-8")
    ended = onceproof("mutants", "totals.py", "--scenarios", "40", "-n", "2")
    assert ended.code == 1
    *_, missed = ended.out.splitlines()
    assert "mistakes would be caught; " in ended.out
    assert missed == f"  totals.py:16: {AT_THE_BOUNDARY}"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((), "name the job: onceproof mutants FILE.py"),
        (("word_count",), "word_count: mistakes are made in jobs of Python"),
        (("sales.py", "--only", "one"), "--only and --seeds belong to --load FILE.py"),
    ],
)
def test_what_cannot_be_edited_is_one_line(
    onceproof: Command, sales: Path, arguments: tuple[str, ...], line: str
) -> None:
    ended = onceproof("mutants", *arguments)
    assert ended.code == 4
    assert line in ended.error
