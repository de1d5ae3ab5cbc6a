"""The benchmark of scripts of SQL, at a tiny size: what was written is read back."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.benchmarks import sql as benchmarks_sql
from tests.benchmarks.local import WrongCount
from tests.benchmarks.measurement import load_benchmark
from tests.benchmarks.sql import QUERIES, SCRIPTS, check_rows, measure, rows_left, write_events


def test_engine_is_measured_on_a_query_that_replaces_rows() -> None:
    found = measure(1_000, ("q18",), rounds=1, engines=("local",))
    kinds = ("events_per_second", "seconds", "wall_events_per_second", "wall_seconds")
    assert set(found.figures) == {"events", *(f"q18_local_{kind}" for kind in kinds)}
    assert min(found.figures.values()) > 0
    assert found.floors == {}
    assert found.ratios == {}


@pytest.mark.parametrize("query", QUERIES)
def test_flink_gets_the_script_with_files_at_its_ends(query: str) -> None:
    script = benchmarks_sql._with_files((SCRIPTS / f"{query}.sql").read_text(), "/in", Path("/out"))
    assert "'path' = 'file:///in', 'format' = 'json'" in script
    assert "'path' = 'file:///out', 'format' = 'debezium-json'" in script
    assert "nexmark'" not in script


def test_events_are_dealt_out_with_a_time_of_their_own(tmp_path: Path) -> None:
    write_events(100, tmp_path)
    rows = [json.loads(line) for part in tmp_path.iterdir() for line in part.read_text().splitlines()]
    assert Counter(row["event_type"] for row in rows) == {0: 2, 1: 6, 2: 92}
    times = {(row["person"] or row["auction"] or row["bid"])["dateTime"] for row in rows}
    assert len(times) == 100
    assert "1970-01-01 00:00:00.099" in times


def test_rows_are_what_changes_leave(tmp_path: Path) -> None:
    changes = [(None, 1), (1, None), (None, 2), (None, 2), (None, 3)]
    lines = [json.dumps({"before": before, "after": after, "op": "c"}) for before, after in changes]
    lines.append('{"before": null, "after": 2E0, "op": "c"}')
    (tmp_path / "part-0").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / ".part-1.inprogress").write_text("not yet")
    assert rows_left(tmp_path) == {'"2"': 3, '"3"': 1}


def test_other_rows_and_no_rows_spoil_the_measurement() -> None:
    check_rows("q1", {"local": Counter("ab"), "flink": Counter("ba")})
    with pytest.raises(WrongCount, match="q1: 2 rows differ between local and flink, a for one"):
        check_rows("q1", {"local": Counter("b"), "flink": Counter("abb")})
    with pytest.raises(WrongCount, match="q1: local has left no row"):
        check_rows("q1", {"local": Counter()})


def test_the_command_knows_it() -> None:
    assert load_benchmark("sql") is measure
