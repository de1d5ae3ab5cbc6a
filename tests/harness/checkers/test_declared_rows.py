"""Late records on hand-written histories: which may be late, and which rows they may give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import pytest

from onceproof.engine.durations import Duration
from onceproof.engine.watermarks.strategy import WatermarkStrategy
from onceproof.harness.checkers.arrivals import arrivals_of, line_of
from onceproof.harness.checkers.consistent_cut import ConsistentCut
from onceproof.harness.checkers.exactly_once import ExactlyOnce
from onceproof.harness.checkers.firings import MOST_RECORDS
from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.model.family import Declared, Family, FamilyError, FamilyOptions, Records, Rows
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import TRANSACTION_VISIBLE, Event, History, Row
from onceproof.harness.model.scenario import InputRecord, Scenario
from onceproof.harness.model.watermarks import Timed
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from onceproof.harness.trials.trial import scenario_of

HOUR = 100
BOUND = 10


class Hours:
    """Adds up numbers per hour; a late number gives the row ("late", timestamp, number)."""

    options = FamilyOptions(late="late", due=lambda row, _: row[1] + HOUR - 1 if row[0] == "hour" else None)

    def job(self, env: Any, io: Any) -> None:
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(BOUND))
        env.from_source(io.source("numbers"), strategy, "numbers").add_sink(io.sink("table"))

    def expected(self, records: Records, declared: Declared) -> Rows:
        hours: Counter[int] = Counter()
        late: list[Row] = []
        for split in records.values():
            for at, number in split:
                row = ("late", at, number)
                if row in declared.rows:
                    late.append(row)
                else:
                    hours[at - at % HOUR] += int(number or 0)  # type: ignore[arg-type]
        rows = [("hour", hour, total) for hour, total in hours.items()]
        return [*late, *rows] if declared.is_whole else [row for row in rows if row in declared.rows] + late


class Case:
    """Writes the history of a run over one split, whose rows are given checkpoint by checkpoint."""

    def __init__(self, make_scenario: Callable[..., Scenario], *records: InputRecord) -> None:
        self.scenario = make_scenario(records={"numbers": records})
        self.history = History()
        self.attempt = ""
        self.step = 0

    def start(self, attempt: str, restored: int | None = None) -> Case:
        self.attempt = attempt
        self.history.attempt_started(self._tick(), attempt, 1, restored)
        return self

    def checkpoint(self, number: int, offset: int, rows: Sequence[Row], in_flight: int = 0) -> Case:
        name = f"t-{number}"
        cut = {"numbers": offset}
        self.history.checkpoint_completed(
            self._tick(), number, self.attempt, cut, (name,), (self.attempt,), in_flight
        )
        self.history.transaction_visible(self._tick(), name, 0, self.attempt, number, rows)
        return self

    def finish(self) -> Case:
        self.history.job_finished(self._tick())
        return self

    def anomalies(self, family: Any = None) -> list[str]:
        oracle = PythonOracle(family or Hours(), self.scenario)
        checkers = (ExactlyOnce(), ConsistentCut())
        return [
            found.anomaly
            for checker in checkers
            for found in checker.check(self.scenario, self.history, oracle)
        ]

    def _tick(self) -> int:
        self.step += 1
        return self.step


# The number 7 comes when the watermark may be 339: hour 0 was over at 99.
LATE_SEVEN = ((10, 1), (350, 2), (20, 7), (360, 4))


def test_a_late_record_that_is_declared_passes(make_scenario: Callable[..., Scenario]) -> None:
    case = Case(make_scenario, *LATE_SEVEN).start("1.1")
    case.checkpoint(1, 2, [("hour", 0, 1)]).checkpoint(2, 4, [("late", 20, 7), ("hour", 300, 6)])
    assert case.finish().anomalies() == []


def test_a_late_record_that_counts_in_its_hour_passes(make_scenario: Callable[..., Scenario]) -> None:
    # The watermark is periodic: it may come after the record.
    case = Case(make_scenario, *LATE_SEVEN).start("1.1")
    assert case.checkpoint(1, 4, [("hour", 0, 8), ("hour", 300, 6)]).finish().anomalies() == []


def test_a_record_that_cannot_be_late_and_is_declared_fails(make_scenario: Callable[..., Scenario]) -> None:
    case = Case(make_scenario, *LATE_SEVEN).start("1.1")
    case.checkpoint(1, 4, [("hour", 0, 8), ("late", 350, 2), ("hour", 300, 4)])
    assert case.finish().anomalies() == ["wrong value", "phantom", "wrong cut"]


def test_a_record_behind_the_watermark_whose_hour_runs_cannot_be_late(
    make_scenario: Callable[..., Scenario],
) -> None:
    records = ((10, 1), (105, 2), (20, 7))
    case = Case(make_scenario, *records).start("1.1")
    case.checkpoint(1, 3, [("hour", 0, 1), ("late", 20, 7), ("hour", 100, 2)])
    assert case.finish().anomalies() == ["wrong value", "phantom", "wrong cut"]


def test_a_record_cannot_be_late_by_what_was_read_before_a_restore(
    make_scenario: Callable[..., Scenario],
) -> None:
    case = Case(make_scenario, *LATE_SEVEN).start("1.1").checkpoint(1, 2, [("hour", 0, 1)])
    case.start("1.2", restored=1).checkpoint(2, 4, [("late", 20, 7), ("hour", 300, 6)])
    assert "phantom" in case.finish().anomalies()


def test_two_firings_without_a_restore_fail(make_scenario: Callable[..., Scenario]) -> None:
    # The hour was over, so the record had to be late, and counts.
    case = Case(make_scenario, *LATE_SEVEN).start("1.1").checkpoint(1, 2, [("hour", 0, 1)])
    case.checkpoint(2, 4, [("hour", 0, 7), ("hour", 300, 6)])
    assert case.finish().anomalies() == ["wrong value", "phantom", "wrong cut"]


def test_an_hour_opened_again_after_a_restore_passes(make_scenario: Callable[..., Scenario]) -> None:
    case = Case(make_scenario, *LATE_SEVEN).start("1.1").checkpoint(1, 2, [("hour", 0, 1)])
    case.start("1.2", restored=1).checkpoint(2, 3, []).checkpoint(3, 4, [("hour", 0, 7), ("hour", 300, 6)])
    assert case.finish().anomalies() == []


def test_an_hour_opened_again_by_a_wrong_number_fails(make_scenario: Callable[..., Scenario]) -> None:
    case = Case(make_scenario, *LATE_SEVEN).start("1.1").checkpoint(1, 2, [("hour", 0, 1)])
    case.start("1.2", restored=1).checkpoint(2, 4, [("hour", 0, 8), ("hour", 300, 6)])
    assert "wrong cut" in case.finish().anomalies()


def test_an_hour_split_where_the_restore_came_too_early_fails(
    make_scenario: Callable[..., Scenario],
) -> None:
    # Nothing before the restore was far enough ahead for the hour to be over.
    case = Case(make_scenario, (10, 1), (20, 7), (360, 4)).start("1.1").checkpoint(1, 1, [("hour", 0, 1)])
    case.start("1.2", restored=1).checkpoint(2, 3, [("hour", 0, 7), ("hour", 300, 4)])
    assert case.finish().anomalies() == ["wrong value", "phantom", "wrong cut"]


def test_a_record_in_flight_at_a_cut_is_missed_by_its_hour(make_scenario: Callable[..., Scenario]) -> None:
    case = Case(make_scenario, *LATE_SEVEN).start("1.1").checkpoint(1, 3, [("hour", 0, 1)], in_flight=1)
    case.checkpoint(2, 4, [("late", 20, 7), ("hour", 300, 6)])
    assert case.finish().anomalies() == []


def test_a_record_that_is_nowhere_at_an_aligned_cut_fails(make_scenario: Callable[..., Scenario]) -> None:
    case = Case(make_scenario, *LATE_SEVEN).start("1.1").checkpoint(1, 3, [("hour", 0, 1)])
    case.checkpoint(2, 4, [("late", 20, 7), ("hour", 300, 6)])
    assert case.finish().anomalies() == ["wrong cut"]


def test_a_record_in_flight_at_the_restore_may_open_its_hour_again(
    make_scenario: Callable[..., Scenario],
) -> None:
    case = Case(make_scenario, *LATE_SEVEN).start("1.1").checkpoint(1, 3, [("hour", 0, 1)], in_flight=1)
    case.start("1.2", restored=1).checkpoint(2, 4, [("hour", 0, 7), ("hour", 300, 6)])
    assert case.finish().anomalies() == []


def test_a_lost_late_record_fails(make_scenario: Callable[..., Scenario]) -> None:
    case = Case(make_scenario, *LATE_SEVEN).start("1.1")
    case.checkpoint(1, 2, [("hour", 0, 1)]).checkpoint(2, 4, [("hour", 300, 6)])
    assert case.finish().anomalies() == ["wrong value", "wrong cut"]


def test_a_late_row_is_possible_as_often_as_its_record_is_there(
    make_scenario: Callable[..., Scenario],
) -> None:
    case = Case(make_scenario, *LATE_SEVEN).start("1.1")
    case.checkpoint(1, 4, [("hour", 0, 1), ("late", 20, 7), ("late", 20, 7), ("hour", 300, 6)])
    assert case.finish().anomalies()[0] == "duplicated"


def test_an_attempt_that_was_discarded_does_not_count(make_scenario: Callable[..., Scenario]) -> None:
    case = Case(make_scenario, *LATE_SEVEN).start("1.1").checkpoint(1, 1, [])
    case.start("1.2", restored=1).start("1.3", restored=1)
    line = line_of(case.history)
    assert line is not None
    assert [(attempt.name, attempt.start) for attempt in line] == [("1.1", {}), ("1.3", {"numbers": 1})]


def test_watermarks_begin_anew_where_an_attempt_resumed(make_scenario: Callable[..., Scenario]) -> None:
    case = Case(make_scenario, *LATE_SEVEN).start("1.1").checkpoint(1, 2, []).start("1.2", restored=1)
    strategy = Timed(WatermarkStrategy.for_monotonous_timestamps(), is_of_one_split=True)
    found = arrivals_of(case.scenario.records, [strategy], line_of(case.history))
    least = -(1 << 63)
    assert [(each.watermark, each.earlier) for each in found] == [
        (least, least),
        (9, least),
        (least, 349),
        (19, 349),
    ]


def test_a_restore_from_an_unknown_checkpoint_leaves_the_line_open(
    make_scenario: Callable[..., Scenario],
) -> None:
    case = Case(make_scenario, *LATE_SEVEN).start("1.1", restored=7)
    assert line_of(case.history) is None
    case.checkpoint(8, 4, [("hour", 0, 1), ("hour", 0, 7), ("hour", 300, 6)])
    assert case.finish().anomalies() == ["stale restore"]


def test_too_many_records_behind_the_watermark_are_noted(make_scenario: Callable[..., Scenario]) -> None:
    late = [(20, 1 << number) for number in range(MOST_RECORDS + 1)]
    case = Case(make_scenario, (350, 0), *late).start("1.1")
    case.checkpoint(1, len(late) + 1, [("hour", 0, 5), ("hour", 300, 0)])
    assert "lost" not in case.finish().anomalies()
    assert any(note.startswith("undecided") for note in case.history.statistics.notes)


class Trusting(Hours):
    """Returns each late row that is declared."""

    def expected(self, records: Records, declared: Declared) -> Rows:
        said = [row for row in declared.rows if row[0] == "late"]
        rows = super().expected(records, declared)
        return [*said, *[row for row in rows if row[0] != "late"]]


def test_late_rows_are_matched_where_expected_trusts_them(make_scenario: Callable[..., Scenario]) -> None:
    case = Case(make_scenario, *LATE_SEVEN).start("1.1")
    case.checkpoint(1, 4, [("hour", 0, 1), ("late", 20, 7), ("hour", 300, 6)])
    assert case.finish().anomalies(Trusting()) == []
    case = Case(make_scenario, *LATE_SEVEN).start("1.1")
    case.checkpoint(1, 4, [("hour", 0, 8), ("late", 350, 2), ("hour", 300, 4)])
    assert "phantom" in case.finish().anomalies(Trusting())


class Numbered(Hours):
    """Gives each number its place among those before it."""

    options = FamilyOptions(late="late", due=lambda row, _: None)

    def expected(self, records: Records, declared: Declared) -> Rows:
        rows: list[Row] = []
        for split in records.values():
            for place, (_, number) in enumerate(split):
                late = ("late", place, number)
                rows.append(late if late in declared.rows else ("number", place, number))
        return rows


def test_late_rows_that_count_the_records_before_them_are_matched(
    make_scenario: Callable[..., Scenario],
) -> None:
    numbered: list[Row] = [("number", place, number) for place, (_, number) in enumerate(LATE_SEVEN)]
    for place, late, passes in ((2, (2, 7), True), (1, (1, 2), False), (2, (0, 7), False)):
        rows = [*numbered[:place], ("late", *late), *numbered[place + 1 :]]
        case = Case(make_scenario, *LATE_SEVEN).start("1.1").checkpoint(1, 4, rows).finish()
        assert (case.anomalies(Numbered()) == []) is passes


class Patient(Hours):
    """Takes numbers for another 200 ms behind the end of their hour."""

    options = FamilyOptions(
        late="late", due=lambda row, _: row[1] - row[1] % HOUR + HOUR - 1 + 200 * (row[0] == "late")
    )


def test_a_late_row_may_be_due_after_all_others(make_scenario: Callable[..., Scenario]) -> None:
    # The first hour takes no more numbers at 299, which the watermark reaches or not.
    for newest, passes in ((310, True), (309, False)):
        case = Case(make_scenario, (10, 1), (newest, 2), (20, 7)).start("1.1")
        case.checkpoint(1, 3, [("hour", 0, 1), ("late", 20, 7), ("hour", 300, 2)])
        assert (case.finish().anomalies(Patient()) == []) is passes


def test_due_without_late_is_refused() -> None:
    with pytest.raises(FamilyError, match="late is missing"):
        FamilyOptions(due=lambda row, _: None)


def test_late_implies_that_rows_are_declared() -> None:
    assert FamilyOptions(late="late").declares
    assert FamilyOptions(late=lambda row: row[0] == "gone").is_late(("gone", 1))
    assert not FamilyOptions(late="late").is_late(("hour", 1))


def test_windows_that_a_failed_job_has_not_fired_again_are_no_phantoms() -> None:
    family = load_family("late_readings")
    scenario, events = next(runs_with_two_firings(family))
    history = History()
    history.events = events[
        : next(at for at, each in enumerate(events) if each[1] == TRANSACTION_VISIBLE) + 1
    ]
    oracle = PythonOracle(family, scenario)
    assert ExactlyOnce().check(scenario, history, oracle) == []
    history.job_finished(len(events))
    found = ExactlyOnce().check(scenario, history, oracle)
    assert {each.anomaly for each in found} >= {"lost", "phantom"}


def runs_with_two_firings(family: Family) -> Iterator[tuple[Scenario, list[Event]]]:
    """Yield scenarios in which the first rows to be seen hold a window that fires again, and their events."""
    for seed in count():
        scenario = scenario_of(family, seed)
        history = SimulatedSystem().run(family, scenario)
        shown = [payload["rows"] for _, kind, _, payload in history.events if kind == TRANSACTION_VISIBLE]
        later = {row[:3] for rows in shown[1:] for row in rows if row[6] == "window"}
        if shown and any(row[:3] in later for row in shown[0]):
            yield scenario, history.events
