"""The event-time families: rows by hand, what a run may declare, and that a correct engine passes."""

from __future__ import annotations

from typing import Any

import pytest

from onceproof.harness.model.family import NOTHING_DECLARED, Declared
from onceproof.scenarios import periodic_page_views, sessions, sliding_word_count, window_sum
from tests.scenarios.asking import asked
from tests.scenarios.passing_runs import passing_runs

FAMILIES = ("periodic_page_views", "sessions", "sliding_word_count", "window_sum")
EARLY, LATER = 3_000, 60_000
"""A record at EARLY that comes behind one at LATER may be late for every window."""


def declaring(*rows: tuple[Any, ...]) -> Declared:
    return Declared(rows)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_sound_engine_passes_and_gives_rows_in_several_transactions(name: str) -> None:
    transactions, rescales = passing_runs(name, 30)
    assert sum(map(len, transactions)) > 60
    assert len(transactions) > 30
    assert rescales > 3


# Which rows a run may choose.

ANT, BEE = ("ant", 10_000), ("bee", 10_000)
ANY_SPLIT = {"words-0": [(1_000, ANT), (4_000, BEE), (6_000, ANT)]}
COUNTS = [
    ("count", "ant", -5_000, 1),
    ("count", "ant", 0, 2),
    ("count", "ant", 5_000, 1),
    ("count", "bee", -5_000, 1),
    ("count", "bee", 0, 1),
]


def test_words_are_counted_in_both_of_their_windows() -> None:
    assert sorted(sliding_word_count.expected(ANY_SPLIT, NOTHING_DECLARED)) == COUNTS
    assert sorted(sliding_word_count.expected(ANY_SPLIT, declaring(*COUNTS))) == COUNTS


def test_the_time_of_a_word_decides_in_how_many_windows_of_twelve_seconds_it_is() -> None:
    records = {"words-0": [(1_999, ("ant", 12_000)), (2_000, ("bee", 12_000))]}
    assert sorted(sliding_word_count.expected(records, NOTHING_DECLARED)) == [
        ("count", "ant", -10_000, 1),
        ("count", "ant", -5_000, 1),
        ("count", "ant", 0, 1),
        ("count", "bee", -5_000, 1),
        ("count", "bee", 0, 1),
    ]


def test_before_the_end_of_a_run_only_emitted_rows_are_expected() -> None:
    visible = [COUNTS[3], ("count", "ant", 0, 1)]
    declared = Declared(visible, is_whole=False)
    assert sliding_word_count.expected(ANY_SPLIT, declared) == [COUNTS[3]]


def test_a_word_may_be_late_only_behind_one_that_is_much_newer() -> None:
    late = ("late", "ant", EARLY, 1)
    in_order = {"words-0": [(EARLY, ANT), (LATER, BEE)]}
    assert late not in asked(sliding_word_count, in_order, late)
    other_split = {"words-0": [(LATER, BEE)], "words-1": [(EARLY, ANT)]}
    assert late not in asked(sliding_word_count, other_split, late)
    behind = {"words-0": [(LATER, BEE), (EARLY, ANT)]}
    rows = asked(sliding_word_count, behind, late)
    assert late in rows
    assert not [row for row in rows if row[:2] == ("count", "ant")]
    assert ("count", "ant", 0, 1) in asked(sliding_word_count, behind)


def test_a_word_that_may_have_missed_its_earlier_window_may_be_counted_there_or_not() -> None:
    behind = {"words-0": [(4_000, ANT), (13_000, BEE), (6_000, ANT)]}
    others = [row for row in asked(sliding_word_count, behind) if row[:3] != ("count", "ant", 0)]
    for words in (1, 2):
        rows = [*others, ("count", "ant", 0, words)]
        assert sorted(asked(sliding_word_count, behind, *rows)) == sorted(rows)
    for words in (0, 3):
        row = ("count", "ant", 0, words)
        assert row not in asked(sliding_word_count, behind, *others, row)
    assert ("count", "ant", 0, 2) in asked(sliding_word_count, behind)


def test_numbers_are_added_up_in_one_window_each() -> None:
    records = {"a": [(0, 1), (4_999, 2), (LATER, 4)], "b": [(5_000, 8)], "c": [(LATER, 16), (EARLY, 32)]}
    late = ("late", "all", EARLY, 32)
    assert sorted(window_sum.expected(records, declaring(late))) == [
        late,
        ("sum", "all", 0, 3),
        ("sum", "all", 5_000, 8),
        ("sum", "all", 60_000, 20),
    ]
    assert ("sum", "all", 0, 35) in window_sum.expected(records, NOTHING_DECLARED)


def test_sessions_end_after_a_silence_and_list_their_actions() -> None:
    records = {
        "a": [(1_000, ("ann", 1)), (11_000, ("ann", 2)), (21_001, ("ann", 3))],
        "b": [(5_000, ("bob", 4)), (9_000, ("ann", 5))],
    }
    rows = [
        ("session", "ann", 1_000, "1,2,5"),
        ("session", "ann", 21_001, "3"),
        ("session", "bob", 5_000, "4"),
    ]
    assert sorted(sessions.expected(records, NOTHING_DECLARED)) == rows
    assert sorted(sessions.expected(records, declaring(*rows))) == rows


@pytest.mark.parametrize(
    "row",
    [
        ("session", "ann", 1_000, "1"),
        ("session", "ann", 1_000, "1,2,3"),
        ("session", "ann", 2_000, "1,2"),
        ("session", "bob", 1_000, "1,2"),
        ("session", "ann", 1_000, "1,2,9"),
        ("late", "ann", 1_000, "1"),
        (None, "ann", 1_000, "1,2"),
    ],
    ids=str,
)
def test_a_session_that_cannot_be_is_not_expected(row: tuple[Any, ...]) -> None:
    records = {"a": [(1_000, ("ann", 1)), (4_000, ("ann", 2)), (50_000, ("ann", 3))]}
    expected = asked(sessions, records, row, ("session", "ann", 50_000, "3"))
    assert row not in expected
    assert ("session", "ann", 1_000, "1,2") in expected


def test_a_session_may_miss_one_that_it_touches_if_it_came_so_late() -> None:
    first, second = ("session", "ann", 1_000, "1"), ("session", "ann", 8_000, "3")
    behind = {"a": [(1_000, ("ann", 1)), (LATER, ("bob", 2)), (8_000, ("ann", 3))]}
    together = ("session", "ann", 1_000, "1,3")
    other = ("session", "bob", LATER, "2")
    late = ("late", "ann", 8_000, "3")
    # The watermark is at 57,999: had it come in time, the third action were late.
    assert sorted(asked(sessions, behind, first, late, other)) == sorted([first, late, other])
    assert together in asked(sessions, behind, together, other)
    assert together in asked(sessions, behind)
    near = {"a": [(1_000, ("ann", 1)), (13_000, ("bob", 2)), (8_000, ("ann", 3))]}
    # At 10,999 the first session is over, and the third action is not: it begins a session of its own.
    other = ("session", "bob", 13_000, "2")
    assert sorted(asked(sessions, near, first, second, other)) == sorted([first, second, other])
    in_order = {"a": [(1_000, ("ann", 1)), (8_000, ("ann", 3)), (LATER, ("bob", 2))]}
    assert together in asked(sessions, in_order, first, second)
    assert first not in asked(sessions, in_order, first, second)


def test_a_timer_emits_the_count_and_the_next_view_registers_the_next_timer() -> None:
    log = {"log-0": [(1_000, ("ann", "home")), (5_000, ("ann", "cart")), (14_000, ("bob", "home"))]}
    log["log-0"] += [(15_000, ("ann", "home")), (30_000, ("bob", "help"))]
    surely = [
        ("log-0", "ann", 11_000, 2),
        ("log-0", "ann", 25_000, 3),
        ("log-0", "bob", 24_000, 2),
    ]
    assert sorted(periodic_page_views.expected(log, declaring(*surely))) == surely
    assert sorted(periodic_page_views.expected(log, NOTHING_DECLARED)) == surely
    # The watermark may have come later: then the third view of ann was counted, too, and sets no timer.
    slowly = [("log-0", "ann", 11_000, 3), ("log-0", "bob", 24_000, 2)]
    assert sorted(periodic_page_views.expected(log, declaring(*slowly))) == slowly


@pytest.mark.parametrize(
    "rows",
    [
        [("log-0", "ann", 11_000, 1)],
        [("log-0", "ann", 12_000, 2)],
        [("log-0", "ann", 11_000, 4)],
        [("log-0", "ann", 11_000, 2), ("log-0", "ann", 24_000, 3)],
    ],
    ids=str,
)
def test_a_count_or_a_timer_that_cannot_be_is_not_expected(rows: list[tuple[Any, ...]]) -> None:
    log = {"log-0": [(1_000, ("ann", "a")), (5_000, ("ann", "b")), (14_000, ("bob", "c"))]}
    log["log-0"] += [(15_000, ("ann", "d"))]
    assert rows[-1] not in periodic_page_views.expected(log, declaring(*rows))
