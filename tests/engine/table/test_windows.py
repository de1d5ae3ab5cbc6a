"""Windows, OVER and MATCH_RECOGNIZE: what the recorded vectors do not reach."""

import pytest

from onceproof.engine.table.expressions.calendar import session_zone
from onceproof.engine.table.nodes.windows import WindowClock, WindowSpec, iso_duration_ms
from onceproof.engine.table.values import DELETE, INSERT, NANOS_PER_SECOND, timestamp_of
from tests.engine.table.plan_runs import changes_in, plan_of, run, table_of

HOUR = 3_600_000
DAY = 24 * HOUR


RESTORED = [
    "tvf.hop.agg/a",
    "tvf.session.raw/a",
    "tvf.session.nokey/a",
    "cmp.window.dedup.rank",
    "leg.hop/a",
    "leg.session/a",
    "api.slide.count",
    "wtop.2/a",
    "wdedup.last/a",
    "wj.inner",
    "over.rows_unb/a",
    "over.range_unb/a",
    "over.rows_1/a",
    "over.range_5s/a",
    "over.proctime/a",
    "over.updating/n",
    "mr.vshape/a",
    "mr.within3",
]
ON_ROCKSDB = [
    "tvf.hop.agg/a",
    "leg.session/a",
    "wj.inner",
    "over.range_5s/a",
    "over.updating/n",
    "mr.vshape/a",
]


@pytest.mark.parametrize(
    ("name", "backend"),
    [*[(name, "hashmap") for name in RESTORED], *[(name, "rocksdb") for name in ON_ROCKSDB]],
)
def test_table_is_the_same_with_a_failure(name, backend):
    plan, changes_of = plan_of(name), changes_in(name)
    expected = run(plan, changes_of, backend=backend, interval=1)
    assert expected
    found = run(plan, changes_of, len(expected) // 2, backend, interval=1)
    assert table_of(found) == table_of(expected)


def test_windows_are_aligned_with_an_offset_before_the_epoch_too():
    assert WindowSpec("HOP", 10, 5, 2).assign(-1) == [(-3, 7), (-8, 2)]
    assert WindowSpec("CUMULATE", 15, 5, 0).assign(6) == [(0, 10), (0, 15)]
    assert WindowSpec("CUMULATE", 15, 5, 0).last_end(5) == 15
    assert WindowSpec("HOP", 10, 20, 0).assign(12) == []


@pytest.mark.parametrize(
    ("end", "fires_at"),
    [
        ("2021-03-14T02:00", "2021-03-14T10:00"),
        ("2021-03-14T03:00", "2021-03-14T10:00"),
        ("2021-03-14T04:00", "2021-03-14T11:00"),
        ("2021-11-07T01:00", "2021-11-07T08:00"),
        ("2021-11-07T02:00", "2021-11-07T10:00"),
    ],
)
def test_window_fires_once_where_the_clock_changes(end, fires_at):
    clock = WindowClock(session_zone("America/Los_Angeles"))
    local, moment = timestamp_of(end) // 1_000_000, timestamp_of(fires_at) // 1_000_000
    fired = clock.fires_at(local)
    assert moment - fired in (0, 1)
    assert local in clock.ends_at(fired, HOUR, 0)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("PT10S", 10_000), ("PT24H", DAY), ("P1DT0.5S", DAY + 500), ("PT-2S", -2000), ("PT1M0.001S", 60_001)],
)
def test_duration_of_java_is_read(text, milliseconds):
    assert iso_duration_ms(text) == milliseconds


def events(*rows):
    """Return a function to insertions of keys, values and seconds; their watermark is two seconds behind."""
    return lambda table: [(INSERT, (key, value, second * NANOS_PER_SECOND)) for key, value, second in rows]


def emitted(name, *rows):
    """Return values and frames of the rows that a vector of OVER emits, in order."""
    return [row[1:2] + row[3:] for _, row in run(plan_of(name), events(*rows), interval=100)]


def test_late_row_counts_in_a_bounded_frame_if_its_key_has_emitted_nothing_later():
    rows = [("a", 1, 10), ("b", 2, 30), ("b", 3, 5), ("a", 4, 9), ("a", 5, 11)]
    assert emitted("over.rows_1/a", *rows) == [(1, 1, 1), (3, 3, 1), (5, 6, 2), (2, 5, 2)]
    assert emitted("over.rows_unb/a", *rows)[:2] == [(1, 1, 1), (2, 2, 1)]


def test_timer_that_forgets_a_range_frame_tells_what_is_late():
    # Key a is forgotten at 17.501 s. The timer of b at 10.501 s forgets nothing: its row of 20 s needs more.
    rows = [("a", 1, 10), ("b", 2, 3), ("b", 4, 20), ("a", 5, 9), ("b", 6, 5)]
    assert emitted("over.range_5s/a", *rows) == [(2, 2, 1), (1, 1, 1), (5, 5, 1), (4, 4, 1)]


def test_bounded_frames_drop_what_is_not_after_the_epoch():
    rows = [("a", 1, -5), ("a", 2, 0), ("a", 3, 1)]
    for name in ("over.rows_1/a", "over.range_5s/a"):
        assert emitted(name, *rows) == [(3, 3, 1)]


def test_no_watermark_before_the_epoch_makes_a_row_late():
    assert emitted("over.rows_unb/a", ("a", 1, -5), ("a", 2, -60)) == [(2, 2, 1), (1, 3, 2)]


@pytest.mark.parametrize("name", ["tvf.hop.agg/a", "leg.hop/a", "leg.session/a"])
def test_window_of_a_retraction_of_a_row_that_never_came_is_emitted(name):
    plan = plan_of(name)
    nodes = [{**node, "needRetraction": True} if "needRetraction" in node else node for node in plan["nodes"]]
    changes = [(DELETE, ("a", 3, NANOS_PER_SECOND)), (DELETE, ("b", 1, 0)), (INSERT, ("b", 1, 0))]
    found = run({**plan, "nodes": nodes}, lambda table: changes, interval=100)
    assert found
    assert {row[0] for _, row in found} == {"a"}
