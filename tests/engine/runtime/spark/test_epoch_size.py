"""How many records an epoch has."""

from __future__ import annotations

from onceproof.engine.configuration import CheckpointSettings
from onceproof.engine.messages import TaskId
from onceproof.engine.runtime.spark.epoch_size import FIRST_RECORDS, MOST_RECORDS, EpochSize

SOURCES = [TaskId(0, 0), TaskId(0, 1), TaskId(3, 0)]


def test_records_are_divided_over_all_source_subtasks():
    assert list(EpochSize(CheckpointSettings(interval_records=100)).quotas(SOURCES).values()) == [34, 33, 33]


def test_every_source_subtask_reads_something():
    assert list(EpochSize(CheckpointSettings(interval_records=1)).quotas(SOURCES).values()) == [1, 1, 1]


def test_ended_sources_take_no_share():
    quotas = EpochSize(CheckpointSettings(interval_records=100)).quotas(SOURCES, {SOURCES[1]})
    assert list(quotas.values()) == [50, 1, 50]
    assert list(EpochSize(CheckpointSettings(interval_records=9)).quotas(SOURCES, set(SOURCES)).values()) == [
        1,
        1,
        1,
    ]


def total(pace):
    return sum(pace.quotas(SOURCES[:1]).values())


def test_configured_number_of_records_does_not_change():
    pace = EpochSize(CheckpointSettings(interval_records=100, interval_ms=1000))
    pace.learn(100, 1)
    assert total(pace) == 100


def test_an_interval_in_time_is_approached_from_below():
    pace = EpochSize(CheckpointSettings(interval_ms=1000))
    assert total(pace) == FIRST_RECORDS
    sizes = []
    for _ in range(8):
        # A thousand records a millisecond.
        pace.learn(total(pace), total(pace) // 1000)
        sizes.append(total(pace))
    assert sizes == [40_000, 160_000, 640_000, *[1_000_000] * 5]


def test_an_epoch_that_took_too_long_is_followed_by_a_shorter_one():
    pace = EpochSize(CheckpointSettings(interval_ms=1000))
    pace.learn(FIRST_RECORDS, 10_000)
    assert total(pace) == FIRST_RECORDS // 10
    pace.learn(1, 100_000_000)
    assert total(pace) == 1


def test_an_epoch_fits_into_memory():
    pace = EpochSize(CheckpointSettings(interval_ms=3_600_000))
    for _ in range(20):
        pace.learn(total(pace), 1)
    assert total(pace) == MOST_RECORDS


def test_an_epoch_without_records_teaches_nothing():
    pace = EpochSize(CheckpointSettings(interval_ms=1000))
    pace.learn(0, 50)
    assert total(pace) == FIRST_RECORDS


def test_bytes_are_divided_over_the_source_subtasks_that_have_records_left():
    pace = EpochSize(CheckpointSettings(interval_records=100), most_bytes=90)
    assert pace.bytes_each(SOURCES) == 30
    assert pace.bytes_each(SOURCES, {SOURCES[1]}) == 45
    assert pace.bytes_each(SOURCES, set(SOURCES)) == 90
