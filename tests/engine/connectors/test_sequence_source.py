"""Numbers and generated records: which come, from which position on, and how fast."""

from __future__ import annotations

import time
from itertools import chain

import pytest

from onceproof.engine import DataGeneratorSource, NumberSequenceSource, RateLimiterStrategy
from onceproof.engine.connectors.sequence_source import SHORTEST_PAUSE_MS, WrongSequence


def values_of(reader, limit=7):
    values = []
    while not reader.exhausted:
        values += [value for value, _ in reader.read(limit)]
    return values


@pytest.mark.parametrize("splits", [1, 3, 20])
def test_splits_have_every_number_from_start_to_end_once(splits):
    source = NumberSequenceSource(-3, 12)
    names = source.splits_for(splits)
    read = [values_of(source.open_split(name, None)) for name in names]
    assert sorted(chain(*read)) == list(range(-3, 13))
    assert all(values == sorted(values) for values in read)


def test_reader_goes_on_at_any_position():
    source = NumberSequenceSource(5, 30)
    split = source.splits_for(3)[1]
    whole = values_of(source.open_split(split, None))
    reader = source.open_split(split, None)
    for count in range(len(whole) + 1):
        assert values_of(source.open_split(split, reader.position)) == whole[count:]
        reader.read(1)


@pytest.mark.parametrize(
    ("split", "position"), [("00001 of 00003", 5), ("00001 of 00003", "x"), ("a.csv", None)]
)
def test_split_or_position_of_another_source_is_refused(split, position):
    with pytest.raises(WrongSequence, match="restore with the source"):
        NumberSequenceSource(0, 30).open_split(split, position)


def test_sequence_without_a_number_is_refused():
    with pytest.raises(ValueError, match="from 3 to 2 is empty: give an end of at least 3"):
        NumberSequenceSource(3, 2)


def test_generated_records_are_those_of_the_function():
    source = DataGeneratorSource(lambda number: f"record {number}", 3)
    assert values_of(source.open_split(source.splits()[0], None)) == ["record 0", "record 1", "record 2"]
    assert source.is_bounded


def test_records_without_end_do_not_end():
    source = DataGeneratorSource(lambda number: number)
    reader = source.open_split(source.splits()[0], 10**18)
    assert reader.read(2) == [(10**18, None), (10**18 + 1, None)]
    assert not reader.exhausted
    assert not source.is_bounded


@pytest.fixture
def wall(monkeypatch):
    """The wall clock in seconds, as the test sets it."""
    clock = [1_000.0]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    return clock


def paced(rate, position=None, splits=1):
    source = DataGeneratorSource(lambda number: number, None, RateLimiterStrategy.per_second(rate))
    return source.open_split(source.splits_for(splits)[0], position)


def test_rate_holds_over_all_splits(wall):
    counts = []
    reader = paced(100, splits=4)
    for _ in range(5):
        counts.append(len(reader.read(1000)))
        wall[0] += 0.2
    assert counts == [1, 5, 5, 5, 5]


def test_reader_that_has_to_wait_says_until_when(wall):
    slow, fast = paced(2), paced(10_000)
    assert (len(slow.read(10)), slow.read(10)) == (1, [])
    assert 499 <= slow.retry_ms <= 501
    fast.read(10)
    assert fast.retry_ms == SHORTEST_PAUSE_MS


def test_rate_goes_on_with_another_reader_and_pauses_are_not_made_up_for(wall):
    position = None
    counts = []
    for seconds in (0.1, 0.1, 3600.0, 0.1):
        reader = paced(50, position)
        counts.append(len(reader.read(1000)))
        position = reader.position
        wall[0] += seconds
    assert counts == [1, 5, 5, 50]


def test_clock_that_is_set_back_does_not_stop_the_records(wall):
    reader = paced(50)
    reader.read(10)
    wall[0] -= 3600
    assert reader.read(10) == []
    wall[0] += 0.1
    assert len(reader.read(10)) == 5


@pytest.mark.parametrize("rate", [0, -1, float("inf"), float("nan")])
def test_rate_that_is_not_possible_is_refused(rate):
    with pytest.raises(ValueError, match="records per second: give a number above 0"):
        RateLimiterStrategy.per_second(rate)


@pytest.mark.parametrize(("function", "count"), [("text", None), (str, -1)])
def test_generator_that_is_not_possible_is_refused(function, count):
    with pytest.raises((TypeError, ValueError), match=r"must be a function|count is -1"):
        DataGeneratorSource(function, count)
