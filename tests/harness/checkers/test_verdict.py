"""The verdict: the violations of all checkers, and the signature of a failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onceproof.harness.checkers import CHECKERS, PROPERTIES
from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import judge
from onceproof.harness.model.family import Declared, FamilyOptions

if TYPE_CHECKING:
    from tests.harness.conftest import Run


def test_a_sound_run_passes_every_property(sound_run: Run) -> None:
    verdict = judge(sound_run.scenario, sound_run.history, sound_run.oracle)
    assert verdict.passed
    assert verdict.signature is None
    assert verdict.failed_properties() == ()


def test_the_signature_is_the_first_of_several_broken_properties(run: Run) -> None:
    run.start("1.1").checkpoint(1, 6).commit().checkpoint(2, 6, [("owl", 2)]).commit(
        "t1-1-1.1"
    ).commit().finish()
    run.history.leak(run.tick(), "open transaction", "t0-2-1.1")
    verdict = judge(run.scenario, run.history, run.oracle)
    assert not verdict.passed
    assert verdict.signature == ("exactly_once", "duplicated")
    assert verdict.failed_properties() == ("exactly_once", "consistent_cut", "no_leaks")


def test_an_exception_is_the_signature_before_its_consequences(run: Run) -> None:
    run.start("1.1").finish()
    run.history.error(run.tick(), "sink-0", "AssertionError", "validate", "two open transactions")
    assert judge(run.scenario, run.history, run.oracle).signature == ("AssertionError", "validate")


def test_the_property_of_each_checker_is_named_once() -> None:
    assert len(set(PROPERTIES)) == len(CHECKERS)


def test_the_oracle_knows_the_input_before_a_cut(sound_run: Run) -> None:
    oracle = sound_run.oracle
    assert oracle.rows_at({"words": 3}) == {("bee", 1): 1, ("owl", 1): 1, ("bee", 2): 1}
    assert oracle.rows_at({}) == {}
    assert oracle.rows_at({"words": 6}) is oracle.rows()


def test_expected_is_computed_once_for_each_cut(sound_run: Run) -> None:
    asked = []

    class Counting:
        def expected(self, records: object, declared: object) -> list[tuple[int, ...]]:
            asked.append(records)
            return []

    oracle = PythonOracle(Counting(), sound_run.scenario)
    for _ in range(3):
        oracle.rows()
        oracle.rows_at({"words": 2})
    assert len(asked) == 2


class Choosing:
    """A family of which each run holds back one row of its choice until the end, and says which it gave."""

    options = FamilyOptions(declares=True)

    def expected(self, records: Mapping[str, Sequence[Any]], declared: Declared) -> list[tuple[str]]:
        words = Counter(value for split in records.values() for _, value in split)
        given = Counter(row[0] for row in declared.rows)
        held = 0 if declared.is_whole else 1
        if (words - given).total() > held:
            return [(word,) for word in words.elements()]
        return [(word,) for word in (words if declared.is_whole else words & given).elements()]


def test_a_family_that_declares_receives_the_visible_rows(sound_run: Run) -> None:
    oracle = PythonOracle(Choosing(), sound_run.scenario)
    words = [value for split in sound_run.scenario.records.values() for _, value in split]
    cut = {split: len(records) for split, records in sound_run.scenario.records.items()}
    one_short = [(word,) for word in words[1:]]
    assert oracle.rows_at(cut, one_short) == dict(Counter(one_short))
    assert oracle.rows_at(cut, one_short[1:]) == oracle.rows(one_short)
    assert oracle.rows(one_short) == dict(Counter((word,) for word in words))
