"""The rows of a year of flights beside what Spark SQL makes of its files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, cast

import pytest

from onceproof.harness.model.family import NOTHING_DECLARED
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.scenario import InputRecord

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def small_blocks(spark: SparkSession) -> Iterator[None]:
    """Let Spark read files in many blocks, as it would read files of gigabytes."""
    settings = {"spark.sql.files.maxPartitionBytes": "500", "spark.sql.files.openCostInBytes": "1"}
    before = {name: str(spark.conf.get(name)) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


def short_year(folder: Path) -> tuple[list[Path], list[str]]:
    """Write some mornings as files like those of the year; return them and the lines of their rows."""
    flights = load_family("flights")
    records: dict[str, list[InputRecord]] = {"EWR": [], "JFK": [], "LGA": []}
    for seed in range(30):
        for airport, some in flights.generate(Random(seed)).records.items():
            records[airport] += some
    paths = []
    for airport, all_of_it in records.items():
        paths.append(folder / f"{airport}.csv")
        lines = ["carrier,delay,cancelled,scheduled\n"]
        for timestamp, value in all_of_it:
            carrier, delay, cancelled = cast(tuple[str, int | None, bool], value)
            lines.append(f"{carrier},{'' if delay is None else delay},{str(cancelled).lower()},{timestamp}\n")
        paths[-1].write_text("".join(lines))
    rows = flights.expected(records, NOTHING_DECLARED)
    return paths, [",".join(map(str, row)) + "\n" for row in rows]


@pytest.mark.usefixtures("small_blocks")
def test_a_year_of_flights_equals_the_rows_and_a_change_is_found(spark: SparkSession, tmp_path: Path) -> None:
    from tests.flights.flights_oracle import compare_year

    flights = load_family("flights")
    year, lines = short_year(tmp_path)
    count = len(lines)
    parts = tmp_path / "rows"
    parts.mkdir()
    # Part files in another order than the rows; what is hidden is not committed.
    (parts / "part-0-0-1.1.csv").write_text("".join(lines[::2]))
    (parts / "part-1-0-1.1.csv").write_text("".join(reversed(lines[1::2])))
    (parts / ".part-1-1-1.1.csv.inprogress").write_text("no row yet")
    same = compare_year(spark, flights, year, parts)
    assert (same.equal, same.expected, same.committed, same.sample) == (True, count, count, ())

    (parts / "part-0-0-1.1.csv").write_text("".join(lines[2::2]))
    (parts / "part-1-1-1.1.csv").write_text(lines[1] + "UA,EW")
    other = compare_year(spark, flights, year, parts)
    assert not other.equal
    assert (other.expected, other.committed, other.missing, other.surplus) == (count, count + 1, 1, 2)
    assert set(other.sample) == {
        (tuple(lines[0].rstrip().split(",")), 1),
        (tuple(lines[1].rstrip().split(",")), -1),
        (("UA", "EW"), -1),
    }


def test_no_rows_at_all_are_all_missing(spark: SparkSession, tmp_path: Path) -> None:
    from tests.flights.flights_oracle import compare_year

    path = tmp_path / "JFK.csv"
    path.write_text("carrier,delay,cancelled,scheduled\nUA,2,false,1357017300000\nUA,,true,1357017300000\n")
    nothing = compare_year(spark, load_family("flights"), [path], tmp_path / "rows")
    assert (nothing.expected, nothing.committed, nothing.missing) == (2, 0, 2)
    assert nothing.sample == ((("UA", "JFK", "1", "0", "2"), 1), (("UA", "JFK", "2", "1", "2"), 1))


def test_a_file_that_spark_cannot_read_is_one_line(spark: SparkSession, tmp_path: Path) -> None:
    from tests.flights.flights_oracle import YearUnreadable, compare_year

    path = tmp_path / "JFK.csv"
    path.write_text("carrier,delay,cancelled,scheduled\nUA,late,false,1357017300000\n")
    with pytest.raises(YearUnreadable, match=r"JFK\.csv.*Malformed") as error:
        compare_year(spark, load_family("flights"), [path], tmp_path / "rows")
    assert "\n" not in str(error.value)
