"""The benchmark of the Nexmark queries, at a tiny size: it measures jobs that really answer them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from onceproof.harness.model.family import NOTHING_DECLARED
from onceproof.harness.model.family_places import load_family
from tests.benchmarks import nexmark as benchmarks_nexmark
from tests.benchmarks.local import WrongCount
from tests.benchmarks.measurement import load_benchmark
from tests.benchmarks.nexmark import check_rows, measure, query_names, shares

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_queries_are_measured_on_both_runtimes_beside_a_loop(spark: SparkSession) -> None:
    found = measure(2_000, ("nexmark_q3", "nexmark_q5"), rounds=1, session=spark, warms_up=False)
    assert set(found.floors) == {
        f"{query}_{runtime}_events_per_second" for query in ("q3", "q5") for runtime in ("local", "spark")
    }
    assert all(found.figures[name] > 0 < floor for name, floor in found.floors.items())
    assert set(found.ratios) == set(found.floors)


def test_all_ten_queries_are_measured_in_the_order_of_their_numbers() -> None:
    assert query_names() == [f"nexmark_q{number}" for number in (0, 1, 2, 3, 4, 5, 7, 8, 11, 12)]


@pytest.mark.parametrize("name", query_names())
def test_each_query_gives_the_rows_of_its_oracle_on_the_local_runtime(name: str) -> None:
    records = benchmarks_nexmark.records_of(3_000)
    cpu, wall = benchmarks_nexmark.run_once(load_family(name), 3_000, records, None)
    assert cpu > 0 < wall


def test_events_are_distributed_in_turn() -> None:
    first, second = shares(100)
    assert [len(first), len(second)] == [50, 50]
    assert [value[0] for value, _ in first[:3]] == ["person", "auction", "bid"]
    assert [value[0] for value, _ in second[:3]] == ["auction", "auction", "bid"]


@pytest.mark.parametrize("spoil", ["missing", "twice", "wrong"])
def test_rows_that_are_wrong_spoil_the_measurement(spoil: str, tmp_path: Path) -> None:
    family, records = load_family("nexmark_q5"), benchmarks_nexmark.records_of(1_000)
    rows = list(family.expected(records, NOTHING_DECLARED))

    def write(committed: list[tuple[object, ...]]) -> None:
        (tmp_path / "part").write_text("".join(f"{json.dumps(row)}\n" for row in committed))

    write(rows)
    check_rows(family, records, tmp_path)
    spoilt = {"missing": rows[1:], "twice": [*rows, rows[0]], "wrong": [(*rows[0][:-1], -1), *rows[1:]]}
    write(spoilt[spoil])
    with pytest.raises(WrongCount, match=r"nexmark_q5: [12] rows differ"):
        check_rows(family, records, tmp_path)


def test_the_command_knows_it() -> None:
    assert load_benchmark("nexmark") is measure
