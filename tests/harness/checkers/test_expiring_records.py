"""The oracles of state that expires agree where records take a while, and on what cannot be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

import pytest

from onceproof.harness.model.family import Declared, Family
from onceproof.harness.model.family_places import load_family
from tests.harness.checkers.test_oracle_spark import Case, differences, drawn, evidence_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from onceproof.harness.model.history import Row


def timed(family: Family, cases: Sequence[Case], random: Random) -> list[Case]:
    """Give the rows of each case times that are far apart and long, and columns that may fit them or not."""
    width = 3 if family.name == "deduplication" else 7
    timed_cases: list[Case] = []
    for number, records, rows in cases:
        now, drawn_rows = 1_000, []
        for row in rows:
            begun = now + random.choice((0, 1, 40, 59, 61, 119, 121, 300))
            now = begun + random.choice((0, 0, 1, 90, 125))
            said = (
                (random.random() < 0.5,) if width == 3 else tuple(random.randrange(-1, 4) for _ in range(5))
            )
            times = (begun, now)
            drawn_rows.append((*row[:3], *((*said, *times) if width == 3 else (*times, *said))))
        # What follows from drawn rows fits them more and more.
        for _ in range(number % 3):
            drawn_rows = list(family.expected(records, Declared(drawn_rows)))
        timed_cases.append((number, records, drawn_rows[number % 5 == 4 :]))
    return timed_cases


@pytest.mark.spark
@pytest.mark.parametrize("name", ["deduplication", "expiring_state"])
def test_both_oracles_say_the_same_of_records_that_take_a_while(name: str, spark: SparkSession) -> None:
    family = load_family(name)
    cases = timed(family, drawn(family, 90)[0], Random(4))
    wrong = {}
    for number, records, rows in cases:
        expected, found = Counter(family.expected(records, Declared(rows))), Counter(rows)
        if expected != found:
            wrong[number] = ((expected - found).total(), (found - expected).total())
    assert 20 < len(wrong) < 70
    judged_by_sql = differences(spark, evidence_of(spark, family, cases))
    assert {each.scenario: (each.missing, each.surplus) for each in judged_by_sql} == wrong


def expected(name: str, rows: Sequence[Row]) -> list[Row]:
    """Return what follows from rows of one key, whose number is always 4."""
    key = "kiln" if name == "expiring_state" else "lamp"
    records = {"part-0": [(at, (key, 4)) for at in range(len(rows))]}
    return list(load_family(name).expected(records, Declared(rows)))


def of_kiln(place: int, times: tuple[int, int], first: int, count: int, elements: int) -> Row:
    return ("part-0", "kiln", place, *times, first, 4 * count, count, elements, 1)


def test_state_that_may_have_expired_during_a_record_may_be_there_or_not() -> None:
    before = of_kiln(1, (1_000, 1_010), 1, 1, 1)
    # From 50 to 65 ms behind it, where states live for 60.
    alive, gone = of_kiln(2, (1_060, 1_065), 1, 2, 2), of_kiln(2, (1_060, 1_065), 2, 1, 1)
    for row in (alive, gone):
        assert expected("expiring_state", [before, row]) == [before, row]


@pytest.mark.parametrize(
    ("times", "first", "count", "elements", "right"),
    [
        ((1_045, 1_059), 2, 1, 1, (1, 2, 2)),
        ((1_070, 1_070), 1, 2, 2, (2, 1, 1)),
        ((1_060, 1_065), 1, 2, 3, (1, 2, 2)),
        ((1_060, 1_065), 1, 2, 0, (1, 2, 1)),
    ],
)
def test_state_is_there_or_gone_where_the_times_leave_no_doubt(
    times: tuple[int, int], first: int, count: int, elements: int, right: tuple[int, int, int]
) -> None:
    before = of_kiln(1, (1_000, 1_010), 1, 1, 1)
    rows = [before, of_kiln(2, times, first, count, elements)]
    assert expected("expiring_state", rows) == [before, of_kiln(2, times, *right)]


def test_device_may_be_new_only_where_it_may_have_been_forgotten() -> None:
    before = ("part-0", "lamp", 1, True, 1_000, 1_010)
    for times, possible in (
        ((1_105, 1_119), {False}),
        ((1_119, 1_121), {False, True}),
        ((1_130, 1_130), {True}),
    ):
        found = {
            expected("deduplication", [before, ("part-0", "lamp", 2, is_new, *times)])[1][3]
            for is_new in (False, True)
        }
        assert found == possible
