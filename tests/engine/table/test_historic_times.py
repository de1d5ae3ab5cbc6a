"""Dates and times long ago, as Flink 2.3 has them: with the calendar and the zones of java.util."""

from __future__ import annotations

from typing import Any

import pytest

from onceproof.engine.table.expressions.calendar import (
    historic_days_of,
    julian_date_of,
    months_between,
    old_zone,
    session_zone,
)
from onceproof.engine.table.expressions.date_patterns import format_old, parse_old
from onceproof.engine.table.expressions.java_strings import date_text, time_text, timestamp_text
from onceproof.engine.table.expressions.times import read_timestamp, round_milliseconds
from onceproof.engine.table.values import MS_PER_DAY, timestamp_of


def days(text: str) -> int:
    return timestamp_of(text) // 1_000_000 // MS_PER_DAY


@pytest.mark.parametrize("day", [*range(-800_000, -141_400, 9973), -141_428, -141_427])
def test_days_before_the_gregorian_calendar_are_those_of_their_julian_date(day: int) -> None:
    assert historic_days_of(*julian_date_of(day)) == day


def test_the_day_after_the_julian_calendar_is_october_15() -> None:
    first = days("1582-10-15")
    assert julian_date_of(first) == (1582, 10, 15)
    assert julian_date_of(first - 1) == (1582, 10, 4)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0001-01-01 00:00:00", -62135769600), ("1582-10-04 23:59:59", -12219292801)],
)
def test_the_old_parser_reads_dates_before_1582_as_julian(text: str, seconds: int) -> None:
    zone = session_zone("UTC")
    moment = parse_old(text, "yyyy-MM-dd HH:mm:ss", zone)
    assert moment == seconds * 1000
    assert format_old(moment, "yyyy-MM-dd HH:mm:ss", zone) == text


@pytest.mark.parametrize(
    ("unit", "up", "rounded"),
    [
        ("DAY", False, "1582-10-10"),
        ("WEEK", False, "1582-09-30"),
        ("MONTH", False, "1582-09-01"),
        ("QUARTER", False, "1582-07-01"),
        ("YEAR", True, "1583-01-01"),
    ],
)
def test_a_timestamp_before_1582_is_rounded_by_its_julian_date(unit: str, up: bool, rounded: str) -> None:
    moment = timestamp_of("1582-10-10") // 1_000_000
    assert round_milliseconds(unit, moment, up) == timestamp_of(rounded) // 1_000_000


@pytest.mark.parametrize(
    ("zone", "local", "utc"),
    [
        ("Europe/Berlin", "2024-10-27 02:30:00", "2024-10-27 01:30:00"),
        ("America/New_York", "2024-11-03 01:30:00", "2024-11-03 06:30:00"),
        ("America/New_York", "2024-03-10 02:30:00", "2024-03-10 07:30:00"),
        ("Europe/Berlin", "1890-01-01 01:00:00", "1890-01-01 00:00:00"),
    ],
)
def test_zones_of_java_util_take_the_second_reading_and_no_mean_time(zone: str, local: str, utc: str) -> None:
    assert old_zone(zone).to_utc(timestamp_of(local)) == timestamp_of(utc)


def test_the_year_0_is_read_and_has_the_local_mean_time_of_its_zone() -> None:
    moment = timestamp_of("0000-12-31T23:06:32Z")
    assert session_zone("Europe/Berlin").to_local(moment) == timestamp_of("0001-01-01")


@pytest.mark.parametrize(
    ("later", "earlier", "months"),
    [
        (("1969-12-31", 86_399_001), ("2000-02-29", 0), -362),
        (("2024-02-29", 0), ("2024-01-29", 1), 0),
        (("2024-02-29", 5), ("2024-01-31", 1), 1),
    ],
)
def test_months_between_moments_look_at_the_time_of_equal_days(later: Any, earlier: Any, months: int) -> None:
    (day, time), (other, other_time) = later, earlier
    assert months_between(days(day), days(other), time, other_time) == months


def test_a_timestamp_shows_the_digits_of_its_type_only() -> None:
    moment = read_timestamp("2023-06-15 10:00:00.123456", "yyyy-MM-dd HH:mm:ss")
    assert moment is not None
    assert timestamp_text(moment, 3) == "2023-06-15 10:00:00.123"
    assert timestamp_text(moment, 0) == "2023-06-15 10:00:00"


def test_a_negative_time_counts_from_the_end_of_the_day() -> None:
    assert time_text(-999, 3) == "23:59:59.001"


def test_a_year_before_0_has_the_characters_that_flink_writes() -> None:
    assert date_text(days("-0001-12-01")) == "000/-12-01"
