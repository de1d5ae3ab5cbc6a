"""Lengths of time as a user writes them."""

import pytest

from onceproof.engine.durations import Duration, Time, milliseconds_of


@pytest.mark.parametrize(
    ("length", "milliseconds"),
    [
        (Duration.of_days(2), 172_800_000),
        (Duration.of_hours(3), 10_800_000),
        (Duration.of_minutes(5), 300_000),
        (Duration.of_seconds(7), 7_000),
        (Duration.of_millis(11), 11),
        (Duration.of_nanos(2_999_999), 2),
        (Time.days(2), 172_800_000),
        (Time.hours(3), 10_800_000),
        (Time.minutes(5), 300_000),
        (Time.seconds(7), 7_000),
        (Time.milliseconds(11), 11),
        (Time.hours(-8), -28_800_000),
    ],
    ids=str,
)
def test_length_in_milliseconds(length, milliseconds):
    assert milliseconds_of(length, "size") == milliseconds


@pytest.mark.parametrize("number", [5, 5.0, "5 s", None])
def test_a_bare_number_is_no_length(number):
    with pytest.raises(TypeError, match=r"size is .* give a Duration or a Time"):
        milliseconds_of(number, "size")


@pytest.mark.parametrize("make", [Duration.of_seconds, Time.minutes])
def test_a_number_of_units_is_whole(make):
    with pytest.raises(TypeError, match="whole number"):
        make(1.5)


def test_lengths_are_values():
    assert Duration.of_seconds(60) == Duration.of_minutes(1)
    assert Time.seconds(60) == Time.minutes(1)
    assert Duration.of_seconds(1) < Duration.of_seconds(2)
    assert Time(5).to_milliseconds() == 5
