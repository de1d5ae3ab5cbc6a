"""The grammar of edits, one edit tried in a copy of the tree, and the recorded sample."""

from __future__ import annotations

import ast
from itertools import islice
from pathlib import Path
from textwrap import dedent

import pytest

from tests.mutation.grammar import CORE, KINDS, Edit, core_edits, draw, edits_of
from tests.mutation.record import (
    VERDICTS,
    interval_text,
    name_of,
    recorded_sample,
    table,
    verdict_on,
    verdicts,
)
from tests.mutation.trials import ROOT, copied_tree, tried

SOURCE = dedent(
    '''
    class Counter:
        """Counts up to 10."""

        def count(self, words: list[str], most: int = 3) -> int:
            """Count words, 5 at most."""
            if not words or len(words) > most:
                raise ValueError("more than 7")
            self.add("größer", words)
            return (most)
    '''
).encode()


def edits_by_kind(source: bytes) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {kind: [] for kind in KINDS}
    for edit in edits_of(source, "engine/task/counter.py"):
        assert edit.function == "Counter.count"
        found[edit.kind].append((edit.before, edit.after))
    return found


def test_each_kind_of_edit_replaces_exactly_its_place() -> None:
    condition = "if not words or len(words) > most:"
    head = "def count(self, words: list[str], most: int = 3) -> int:"
    call = 'self.add("größer", words)'
    assert edits_by_kind(SOURCE) == {
        "comparison": [
            (condition, "if words or len(words) > most:"),
            (condition, "if not words and len(words) > most:"),
            (condition, "if not words or len(words) >= most:"),
        ],
        "constant": [(head, head.replace("3", "0"))],
        "dropped call": [(call, "pass")],
        "swapped arguments": [(call, 'self.add(words, "größer")')],
        "early return": [(condition, "return None"), (call, "return None")],
        "off by one": [
            (head, head.replace("3", "4")),
            (head, head.replace("3", "2")),
            (condition, "if not words or (len(words) + 1) > most:"),
            (condition, "if not words or (len(words) - 1) > most:"),
        ],
    }


def test_a_bracket_after_not_is_no_part_of_what_is_removed() -> None:
    source = b"def f(a, b):\n    return not (a) or not (b == 1)\n"
    after = [edit.after for edit in edits_of(source, "x.py") if edit.kind == "comparison"]
    assert after == [
        "return (a) or not (b == 1)",
        "return not (a) and not (b == 1)",
        "return not (a) or (b == 1)",
        "return not (a) or not (b != 1)",
    ]


@pytest.fixture(scope="module")
def edits() -> list[Edit]:
    return list(core_edits(ROOT))


def test_edits_of_the_core_compile_and_are_drawn_by_the_seed(edits: list[Edit]) -> None:
    drawn = list(islice(draw(edits, 3), 120))
    assert drawn == list(islice(draw(edits, 3), 120))
    assert drawn != list(islice(draw(edits, 4), 120))
    assert [edit.kind for edit in drawn[:6]] == list(KINDS)
    assert {edit.package for edit in edits} == set(CORE)
    for edit in drawn:
        ast.parse(edit.applied_to((ROOT / edit.path).read_bytes()))


def test_the_names_of_all_edits_differ(edits: list[Edit]) -> None:
    assert len({name_of(edit) for edit in edits}) == len(edits)


def test_an_edit_is_tried_in_a_copy_that_is_as_before_afterwards(tmp_path: Path, edits: list[Edit]) -> None:
    copy = copied_tree(tmp_path)
    [edit] = [
        each
        for each in edits
        if each.function == "Task.checkpoint_completed" and each.after == "pass" and "notify" in each.before
    ]
    file = ROOT / edit.path
    before = file.read_bytes()
    sound, edited = tried(copy, None, 1, 3), tried(copy, edit, 1, 3)
    assert (sound.killed, sound.scenarios) == (False, 3)
    assert edited.killed
    assert edited.by in ("exactly_once", "completeness")
    assert (copy / edit.path).read_bytes() == file.read_bytes() == before


def test_an_edited_engine_that_cannot_be_imported_is_caught(tmp_path: Path, edits: list[Edit]) -> None:
    copy = copied_tree(tmp_path)
    (copy / "engine" / "key_groups.py").write_text("1 / 0\n")
    assert tried(copy, None, 1, 1).by == "ZeroDivisionError at the start"


def test_each_recorded_survivor_has_a_verdict_and_a_reason() -> None:
    known = verdicts()
    lines = recorded_sample()["edits"]
    assert [line for line in lines if not verdict_on(line, known)] == []
    assert all(entry["verdict"] in VERDICTS and entry["reason"] for entry in known.values())
    assert known.keys() == {name_of(line) for line in lines if not line["killed"]}


def test_the_figures_count_each_recorded_edit_once() -> None:
    lines = recorded_sample()["edits"]
    *_, total = table(lines, verdicts())
    edits, equivalent, cost, missed, caught = (int(each) for each in total.split("|")[2:7])
    assert edits == len(lines) == equivalent + cost + missed + caught
    assert caught == sum(line["killed"] for line in lines)


def test_the_interval_of_few_edits_is_wide() -> None:
    assert interval_text(8, 10) == "49 to 94"
    assert interval_text(10, 10) == "72 to 100"
