"""Rows that may be late: what a run may leave of them, and what it may not."""

from collections import Counter
from random import Random

import pytest

from onceproof.engine.table.table_settings import TableSettings
from onceproof.harness.model.family import Declared
from onceproof.harness.scripts.calm_runs import CalmRuns
from onceproof.harness.scripts.sql.judging import BY_DUCKDB
from onceproof.harness.scripts.sql.late_rows import (
    NEVER_LATE,
    Mark,
    MaybeLate,
    drops_late_rows,
    lateness_of,
)
from tests.harness.scripts.sql.test_batch import batch_of
from tests.harness.scripts.sql.test_sql_family import family_of

MIDNIGHT = "2024-01-01T00:"
TIMES = {"k": "VARCHAR(2147483647)", "at": "TIMESTAMP(3)", "v": "INT"}
SECOND = 1_000_000_000


def orders(*minutes):
    """Return one split of orders of 1 each, and of which minutes."""
    rows = [("ada", "1.00", f"{MIDNIGHT}{minute:02}:00.000") for minute in minutes]
    return {"orders.0": tuple(enumerate(rows))}


def revenue(minute, count):
    return ("+I", f"{MIDNIGHT}{minute:02}:00.000", "ada", f"{count}.00", count)


BEHIND = orders(1, 2, 25, 3)
COUNTED = [revenue(0, 3), revenue(20, 1)]
LEFT_OUT = [revenue(0, 2), revenue(20, 1)]


def is_right(family, rows, **declared):
    declared = Declared(rows, **declared)
    return sorted(family.expected(BEHIND, declared)) == sorted(rows), family.judged_by(BEHIND, declared)


@pytest.mark.parametrize("rows", [COUNTED, LEFT_OUT])
def test_row_behind_the_watermark_may_count_or_not(rows):
    assert is_right(family_of("revenue"), rows) == (True, BY_DUCKDB)


@pytest.mark.parametrize(
    "rows",
    [
        [revenue(0, 2), revenue(0, 1), revenue(20, 1)],
        [revenue(0, 1), revenue(20, 1)],
        [revenue(0, 3)],
    ],
    ids=["window twice", "row lost that was on time", "window lost"],
)
def test_what_no_late_row_explains_is_wrong(rows):
    family = family_of("revenue")
    assert is_right(family, rows) == (False, BY_DUCKDB)
    assert is_right(family, rows, has_restored=True) == (False, BY_DUCKDB)
    is_judged_right, by = is_right(family, rows, has_restored=True, has_in_flight=True)
    assert is_judged_right
    assert by == "no judge: a restore may have let late rows in"


def test_row_ahead_of_its_split_must_count_whatever_others_read():
    family = family_of("revenue")
    records = {**orders(25, 26), "orders.1": orders(1)["orders.0"]}
    without = [revenue(20, 2)]
    assert family.judged_by(records, Declared(without)) == BY_DUCKDB
    assert sorted(family.expected(records, Declared(without))) == [revenue(0, 1), *without]


def test_rows_are_drawn_behind_the_watermark_and_judged():
    family = family_of("revenue")
    drawn = [family.generate(Random(seed)).records for seed in range(40)]
    late = [records for records in drawn if family._judge.maybe_late(records)["revenue"]]
    assert 4 <= len(late) < 40
    for records in late:
        assert family.judged_by(records, Declared(list(family.calm_rows(records).elements()))) == BY_DUCKDB


def test_rows_without_a_node_that_drops_them_are_free():
    plan = family_of("totals").plan
    assert not drops_late_rows(plan, "payments")
    assert set(lateness_of(plan, "payments", TableSettings({})).values()) == {NEVER_LATE}


def test_mark_is_that_of_the_rows_before():
    lateness = lateness_of(family_of("revenue").plan, "orders", TableSettings({}))["revenue"]
    mark = Mark(lambda row: row[0], lambda row: row[0])
    assert mark.behind((5 * SECOND,)) is None
    mark.take((-5 * SECOND,))
    assert mark.behind((-5 * SECOND,)) == (-5_000, -5_000)
    assert lateness.ends(-5_000, -5_000) == []
    mark.take((600 * SECOND,))
    mark.take((1 * SECOND,))
    assert lateness.ends(*mark.behind((5 * SECOND,))) == [600_000]
    assert NEVER_LATE.ends(*mark.behind((5 * SECOND,))) == []
    assert mark.behind((601 * SECOND,)) is None
    assert mark.behind((None,)) is None


def test_what_becomes_of_late_rows_is_known_by_sink():
    lateness = lateness_of(family_of("traffic").plan, "visits", TableSettings({}))
    unknown = {sink for sink, each in lateness.items() if each is None}
    assert unknown == {"stays", "rushes"}
    kinds = {sink: each.windowing.window.kind for sink, each in lateness.items() if each is not None}
    assert kinds == {"pages": "HOP", "days": "CUMULATE", "longest": "TUMBLE", "latest": "TUMBLE"}


def test_late_row_keeps_only_sinks_of_sessions_from_being_judged():
    family = family_of("traffic")
    drawn = [family.generate(Random(seed)).records for seed in range(60)]
    behind = [each for each in drawn if family._judge.maybe_late(each)["stays"] is None]
    assert 3 <= len(behind) < 30
    for records in behind:
        calm = list(family.calm_rows(records).elements())
        assert family.judged_by(records, Declared(calm)) == f"{BY_DUCKDB} but for 2 tables"
        for row in (next(row for row in calm if row[0] == sink) for sink in ("days", "stays")):
            found = Counter(family.expected(records, Declared([*calm, row])))
            assert found[row] == calm.count(row) + (row[0] == "stays")


def with_rates(*rates):
    """Return an order of the first minute, and changes of the rate of its currency: kind, rate, minute."""
    order = (1, "ant", "euro", 5, f"{MIDNIGHT}10:00.000")
    changes = [(kind, "euro", rate, f"{MIDNIGHT}{minute:02}:00.000") for kind, rate, minute in rates]
    return {"orders.0": ((0, order),), "parcels.0": (), "rates.0": tuple(enumerate(changes))}


@pytest.mark.parametrize(
    ("rates", "is_judged"),
    [([("+I", 2, 1), ("+U", 3, 9)], True), ([("+I", 2, 9), ("+U", 3, 1)], False)],
    ids=["in order", "late"],
)
def test_what_meets_a_late_change_is_not_judged(rates, is_judged, monkeypatch):
    family, records = family_of("deliveries"), with_rates(*rates)
    calm = list(family.calm_rows(records).elements())
    monkeypatch.setattr(CalmRuns, "variants", lambda self, records, **how: [Counter(calm)])
    (met,) = [row for row in calm if row[0] == "converted"]
    other = [(*row[:-1], 7) if row == met else row for row in calm]
    assert (met in family.expected(records, Declared(other))) is is_judged
    lost = [row for row in calm if row[0] != "sent"]
    assert Counter(family.expected(records, Declared(lost))) == Counter(calm)


def test_changes_are_drawn_that_are_not_late():
    family = family_of("deliveries")
    drawn = [family.generate(Random(seed)).records for seed in range(40)]
    long = [each for each in drawn if sum(len(own) for split, own in each.items() if "rates" in split) > 4]
    late = [bool(family._judge._with_late_changes(each)) for each in long]
    assert late.count(True) >= 5
    assert late.count(False) >= 5


WINDOW = "TABLE(HOP(TABLE t, DESCRIPTOR(at), INTERVAL '10' SECOND, INTERVAL '20' SECOND))"
HOPS = f"INSERT INTO s SELECT k, SUM(v) FROM {WINDOW} GROUP BY k, window_start, window_end"
ROWS = [("a", 5 * SECOND, 1), ("a", 15 * SECOND, 2), ("a", 6 * SECOND, 4)]


def test_late_row_is_left_out_of_the_windows_up_to_an_end():
    batch = batch_of(HOPS, source=TIMES)
    late = [MaybeLate("t", 2, (10_000, 20_000))]
    found = [
        sorted(value for _, value in tables["s"].elements()) for tables in batch.tables({"t": ROWS}, late)
    ]
    assert found == [[2, 5, 7], [1, 2, 7], [1, 2, 3]]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, SUM(v) FROM t GROUP BY k",
        "SELECT MAX(k), COUNT(*) FROM t",
        "SELECT DISTINCT k, v FROM t",
        "SELECT k, v FROM t UNION SELECT k, 7 FROM t",
        "SELECT k, v FROM t EXCEPT SELECT k, v FROM t WHERE v > 1",
        "SELECT l.k, r.v FROM t AS l JOIN t AS r ON l.k = r.k AND l.v < r.v",
        "SELECT l.k, r.v FROM t l LEFT JOIN (SELECT * FROM t WHERE v = 4) r ON l.k = r.k AND l.v > r.v",
        "SELECT r.k, l.v FROM (SELECT * FROM t WHERE v > 1) l FULL JOIN t AS r ON l.v = r.v",
        "SELECT l.k, r.v FROM t AS l, (SELECT * FROM t) AS r WHERE l.v = r.v",
        "SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY at) FROM t",
        "SELECT k, SUM(v) OVER w FROM t WINDOW w AS (ORDER BY at)",
        "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY v DESC) AS n FROM t) WHERE n = 1",
        "WITH c (a, b) AS (SELECT k, v FROM t) SELECT a, MIN(b) FROM c GROUP BY a HAVING MIN(b) < 9",
        f"SELECT k, v FROM {WINDOW}",
        "SELECT k, v FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(at), INTERVAL '5' SECOND))",
    ],
)
def test_inputs_side_by_side_are_as_each_alone(query):
    batch = batch_of(f"INSERT INTO s {query}", source=TIMES)
    assert batch.takes_late_rows
    more = [*ROWS, ("b", 30 * SECOND, 4), (None, 31 * SECOND, 2)]
    places = (2, 3, 4)
    late = [MaybeLate("t", place, (100_000,)) for place in places]
    together = batch.tables({"t": more}, late)
    for number, tables in enumerate(together):
        left_out = {place for bit, place in enumerate(places) if number >> bit & 1}
        alone = [row for place, row in enumerate(more) if place not in left_out]
        assert tables == batch.tables({"t": alone})[0]


def test_subquery_in_a_condition_is_executed_without_late_rows():
    batch = batch_of("INSERT INTO s SELECT k, v FROM t WHERE v IN (SELECT MAX(v) FROM t)", source=TIMES)
    assert not batch.takes_late_rows
    assert batch.tables({"t": ROWS})[0]["s"] == {("a", 4): 1}
    assert batch.tables({"t": ROWS}, [MaybeLate("t", 2, (100_000,))]) is None
