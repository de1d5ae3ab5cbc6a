"""A family that takes rows as declared takes no impossible ones: each test plants one row after another.

That its SQL takes the same ones is tested in tests/harness/checkers/test_oracle_spark.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import pytest

from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.model.columns import columns_of
from onceproof.harness.model.family import options_of
from onceproof.harness.model.family_places import family_names, load_family
from onceproof.harness.model.history import JOB_FINISHED, Row, rows_at_end
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from onceproof.harness.trials.trial import scenario_of

FAMILIES: Final = [name for name in family_names() if options_of(load_family(name)).declares]
SEEDS: Final = range(3)
ROWS: Final = 3
"""How many rows of a run are changed, one at a time."""
FAR: Final = 10**9
ABSENT: Final = "a row is absent"
REPEATED: Final = "a row is repeated"

MAY_BE: Final = {
    # By family and change, why the changed rows may be those of a correct run.
    ("behaviour_patterns", "pattern"): "an earlier pattern may say the same of an action",
    ("bursts", "latest_ms"): "at the end of the input no timer says when the last record was processed",
    ("deduplication", "from_ms"): "a record may be processed at any time that gives the same answer",
    ("deduplication", "until_ms"): "a record may be processed for as long as that gives the same answer",
    ("expiring_state", "from_ms"): "a record may be processed at any time that gives the same answer",
    ("expiring_state", "until_ms"): "a record may be processed for as long as that gives the same answer",
    ("early_totals", ABSENT): "the last early firing may have held all records already",
    ("interval_join", ABSENT): "a record that was late in the run may instead have missed its partners",
    ("late_readings", ABSENT): "after a restore a window may or may not be answered again",
    ("pausing_sensors", "kind"): "a reading behind a pause may be late or not",
    ("sliding_word_count", "value"): "a word may be late for the earlier of its windows only",
    ("sliding_word_count", REPEATED): "after a restore a word may open its window again",
    ("textbook_pairs", ABSENT): "each subtask may hold an element back at the end",
    ("textbook_pairs", "first_name"): "an element that is held back may have come instead",
    ("textbook_pairs", "first_number"): "an element that is held back may have come instead",
    ("textbook_pairs", "second_name"): "an element that is held back may have come instead",
    ("textbook_pairs", "second_number"): "an element that is held back may have come instead",
    ("word_bundles", ABSENT): "a bundle may hold a word several times and give one row",
    ("word_bundles", "word"): "a bundle may end behind any word",
    ("word_bundles", "count"): "a bundle may end behind any word",
}


def _others(column: str, value: Any, seen: set[Any]) -> Iterator[Any]:
    """Yield values that may stand in a column instead of another."""
    if type(value) is int:
        yield from (value + 1, value - 1, value + FAR, value - FAR)
    elif isinstance(value, str):
        yield value + "x"
        yield from sorted(seen - {value, None})[:2]
    if value is not None:
        yield None


def _changed(rows: list[Row], place: int, columns: tuple[str, ...]) -> Iterator[tuple[str, list[Row]]]:
    """Yield what is changed in one row, and all rows with it."""
    before, row, behind = rows[:place], rows[place], rows[place + 1 :]
    yield ABSENT, before + behind
    yield REPEATED, [*rows, row]
    for index, column in enumerate(columns):
        for other in _others(column, row[index], {each[index] for each in rows}):
            yield column, [*before, (*row[:index], other, *row[index + 1 :]), *behind]


@pytest.mark.parametrize("name", FAMILIES)
def test_no_impossible_row_is_taken_as_declared(name: str) -> None:
    family = load_family(name)
    excused = {column for each, column in MAY_BE if name.startswith(each)}
    columns = columns_of(family.row_schema)
    planted: Counter[str] = Counter()
    for seed in SEEDS:
        scenario = scenario_of(family, seed)
        history = SimulatedSystem().run(family, scenario)
        rows = rows_at_end(history)
        if not scenario.is_exactly_once or all(event[1] != JOB_FINISHED for event in history.events):
            continue
        oracle = PythonOracle(family, scenario)
        assert oracle.rows(rows, history) == Counter(rows)
        for place in Random(seed).sample(range(len(rows)), min(ROWS, len(rows))):
            for change, changed in _changed(rows, place, columns):
                planted[change] += 1
                if change not in excused:
                    expected = oracle.rows(changed, history)
                    assert expected != Counter(changed), (seed, change, rows[place])
    for change in (ABSENT, REPEATED, *columns):
        assert planted[change], change
