"""Rows in the wrong order, on hand-written histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onceproof.harness.checkers.exactly_once import ExactlyOnce
from onceproof.harness.checkers.mode import Mode
from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.explanation.sentences import sentence_of
from onceproof.harness.model.columns import OrderedBy
from onceproof.harness.model.family import FamilyOptions
from onceproof.harness.model.history import History, Row, Stand
from onceproof.harness.model.job_settings import CheckpointMode
from tests.harness.conftest import WordCount

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from onceproof.harness.model.scenario import Scenario
    from tests.harness.conftest import Run

# Those of the words bee, owl, bee, toad, ant, owl.
BEE, OWL, BEE_2, TOAD, ANT, OWL_2 = (
    ("bee", 1),
    ("owl", 1),
    ("bee", 2),
    ("toad", 1),
    ("ant", 1),
    ("owl", 2),
)
PER_WORD = OrderedBy(key=("word",))
RIGHT = [BEE, OWL, BEE_2, TOAD, ANT, OWL_2]


class Ordered(WordCount):
    row_schema = "word STRING, count BIGINT"

    def __init__(self, ordered_by: OrderedBy) -> None:
        self.options = FamilyOptions(ordered_by=ordered_by)


def judged(
    scenario: Scenario, ordered_by: OrderedBy, *looks: tuple[Sequence[Row], Sequence[Stand]]
) -> list[str]:
    """Return the anomalies of a program whose looks found rows at some places."""
    history = History()
    history.attempt_started(1, "1", 1, None, outside=True)
    for number, (rows, stand) in enumerate(looks):
        history.rows_found(2 + number, f"look {number + 1}", "1", rows, stand)
    history.job_finished(10)
    oracle = PythonOracle(Ordered(ordered_by), scenario)
    checker = ExactlyOnce() if scenario.is_exactly_once else Mode()
    return [each.anomaly for each in checker.check(scenario, history, oracle)]


def in_file(rows: list[Row], file: str = "a", look: int = 1) -> tuple[list[Row], list[Stand]]:
    return rows, [(file, 2 * look - 2, 2 * look + 1)] * len(rows)


@pytest.fixture
def words(make_scenario: Callable[..., Scenario]) -> Scenario:
    return make_scenario()


def test_rows_in_the_order_of_the_oracle_pass(words: Scenario) -> None:
    assert judged(words, OrderedBy(), in_file(RIGHT)) == []


def test_rows_of_two_keys_may_change_places_where_keys_have_an_order(words: Scenario) -> None:
    rows: list[Row] = [OWL, BEE, ANT, TOAD, OWL_2, BEE_2]
    assert judged(words, PER_WORD, in_file(rows)) == []
    assert judged(words, OrderedBy(), in_file(rows)) == ["out of order"]


def test_rows_of_one_key_may_not(words: Scenario) -> None:
    assert judged(words, PER_WORD, in_file([BEE_2, BEE, OWL, TOAD, ANT, OWL_2])) == ["out of order"]


def test_rows_ascend_by_a_column(words: Scenario) -> None:
    by_count = OrderedBy(ascending="count")
    assert judged(words, by_count, in_file([TOAD, ANT, OWL, BEE, OWL_2, BEE_2])) == []
    assert judged(words, by_count, in_file([TOAD, ANT, OWL, BEE_2, OWL_2, BEE])) == ["out of order"]


@pytest.mark.parametrize(("second", "is_wrong"), [(1, False), (2, False), (3, True)])
def test_rows_in_two_files_need_a_look_between_them(words: Scenario, second: int, is_wrong: bool) -> None:
    rest: list[Row] = [OWL, TOAD, ANT, OWL_2, BEE_2]
    found = judged(words, PER_WORD, in_file(rest, "a", 1), in_file([BEE], "b", second))
    assert found == ["out of order"] * is_wrong


def test_rows_of_a_table_have_the_order_of_looks_only(words: Scenario) -> None:
    stand: list[Stand] = [(None, 1, 2)] * 6
    assert judged(words, PER_WORD, ([*reversed(RIGHT)], stand)) == []
    later = ([BEE], [(None, 3, 4)])
    assert judged(words, PER_WORD, (RIGHT[1:], stand[1:]), later) == ["out of order"]


def test_rows_in_two_partitions_have_no_order(words: Scenario) -> None:
    rows, stand = RIGHT[1:], [("0", 0, 0)] * 5
    assert judged(words, OrderedBy(), (rows, stand), ([BEE], [("1", 0, 0)])) == []
    assert judged(words, OrderedBy(), (rows, stand), ([BEE], [("0", 0, 0)])) == ["out of order"]


def test_a_start_that_goes_back_repeats_rows_and_not_their_order(
    make_scenario: Callable[..., Scenario],
) -> None:
    words = make_scenario(mode=CheckpointMode(barriers="at_least_once"))
    history = History()
    history.attempt_started(1, "1", 1, None, outside=True)
    history.rows_found(2, "look 1", "1", *in_file([BEE, OWL, BEE_2]))
    history.fault_fired(3, "kill_process", "element", "*", outside=True)
    history.attempt_started(4, "2", 1, None, outside=True)
    again: list[Row] = [OWL, BEE_2, TOAD, ANT, OWL_2]
    history.rows_found(5, "look 2", "2", *in_file(again))
    history.job_finished(6)
    oracle = PythonOracle(Ordered(OrderedBy()), words)
    assert Mode().check(words, history, oracle) == []
    # What it shows for the first time keeps its order all the same.
    history.events[-2] = (5, "rows_found", "look 2", {**history.events[-2][3], "rows": [*reversed(again)]})
    assert [each.anomaly for each in Mode().check(words, history, oracle)] == ["out of order"]


def test_rows_of_transactions_have_an_order(run: Run) -> None:
    run.oracle = PythonOracle(Ordered(PER_WORD), run.scenario)
    run.start("1.1").checkpoint(1, 3).checkpoint(2, 6).commit("t0-0-1.1", "t1-0-1.1", "t0-1-1.1", "t1-1-1.1")
    assert run.finish().check(ExactlyOnce()) == []
    run.history.events.clear()
    run.start("1.1").checkpoint(1, 3).checkpoint(2, 6).commit("t0-0-1.1", "t1-1-1.1", "t0-1-1.1", "t1-0-1.1")
    assert [anomaly for anomaly, _ in run.finish().check(ExactlyOnce())] == ["out of order"]


def test_the_sentence_names_the_two_rows(words: Scenario) -> None:
    history = History()
    history.rows_found(2, "look 1", "1", *in_file([BEE_2, OWL, TOAD]))
    history.rows_found(3, "look 2", "1", *in_file([ANT, BEE, OWL_2], look=2))
    history.job_finished(4)
    (found,) = ExactlyOnce().check(words, history, PythonOracle(Ordered(PER_WORD), words))
    assert found.where == "look 2, step 3"
    assert sentence_of(found) == (
        "Row (bee, 1), found by look 2, appeared after row (bee, 2), found by look 1, and must come before"
        " it; 1 row out of order in all."
    )
