"""Sorting more records than memory holds, and few records in the order of Flink's sorter."""

from __future__ import annotations

from random import Random

import pytest

from onceproof.engine.state.external_sort import MOST_RUNS, ExternalSort, java_order, sorted_places

FEW_BYTES = 20_000


def entries(count, keys=7, seed=1):
    random = Random(seed)
    return [
        (bytes([random.randrange(keys)]), ((number, "text"), random.choice([None, *range(50)])))
        for number in range(count)
    ]


def in_expected_order(given):
    return sorted(given, key=lambda entry: (entry[0], -(2**63) if entry[1][1] is None else entry[1][1]))


def sorted_by(sort, given, buffer=100):
    for first in range(0, len(given), buffer):
        sort.add(given[first : first + buffer])
    return [(key, record) for key, _, record in sort.in_order()]


@pytest.mark.parametrize("memory", [FEW_BYTES, 1 << 30])
def test_records_come_by_key_and_time_and_then_as_they_arrived(memory):
    given = entries(5000)
    sort = ExternalSort(memory)
    assert sorted_by(sort, given) == in_expected_order(given)
    assert (sort.spilled_records > 0) is (memory == FEW_BYTES)
    sort.close()


def test_many_runs_become_one_and_keep_the_order():
    given = entries(3 * MOST_RUNS * 20)
    sort = ExternalSort(1)
    assert sorted_by(sort, given, buffer=20) == in_expected_order(given)
    assert sort.spilled_records > len(given)


def test_values_without_a_typed_form_stay_in_memory():
    class Opaque:
        pass

    given = [(bytes([number % 3]), (Opaque(), number)) for number in range(500)]
    sort = ExternalSort(FEW_BYTES)
    assert sorted_by(sort, given) == in_expected_order(given)
    assert sort.spilled_records == 0


def test_a_value_without_a_typed_form_may_come_behind_a_run():
    given = entries(2000)
    given[1500] = (given[1500][0], (object(), 3))
    sort = ExternalSort(FEW_BYTES)
    assert sorted_by(sort, given) == in_expected_order(given)


def test_closed_sorts_hold_neither_records_nor_a_file():
    sort = ExternalSort(1)
    sort.add(entries(10))
    sort.close()
    assert list(sort.in_order()) == []


def test_order_of_keys_is_that_of_the_signed_bytes_of_java():
    numbers = [-(2**40), -1, 0, 1, 127, 128, 300]
    assert sorted(numbers, key=java_order) == [-1, -(2**40), 128, 0, 1, 127, 300]
    assert sorted([0.5, -0.5], key=java_order) == [-0.5, 0.5]
    assert sorted([True, False], key=java_order) == [False, True]
    assert sorted(["b", "a", "aa"], key=java_order) == ["a", "b", "aa"]


@pytest.mark.parametrize("count", [1, 12, 13, 40, 1000])
def test_every_place_comes_once_in_the_order_of_the_ranks(count):
    random = Random(count)
    ranks = [(b"", random.randrange(1 + count // 3)) for _ in range(count)]
    places = sorted_places(ranks)
    assert sorted(places) == list(range(count))
    assert [ranks[place] for place in places] == sorted(ranks)


def test_twelve_records_keep_their_order_and_more_need_not():
    ranks = [(b"", number % 2) for number in range(13)]
    assert sorted_places(ranks[:12]) == [*range(0, 12, 2), *range(1, 12, 2)]
    assert sorted_places(ranks) != [*range(0, 13, 2), *range(1, 13, 2)]


def test_records_of_one_time_come_as_flink_has_recorded_them():
    # From a recorded job: Flink reads 2 before 8, of key -1 at -6.
    times = [-15, -6, -6, 10, 11, 12, 16, 15, 14, 20, 25, 31, 43, 43, 43, 46, 40]
    times += [45, 52, 52, 59, 70, 58, 70, 76]
    keys = [0, -1, -1, -1, -1, 0, 0, 0, 0, -1, 0, -1, 0, -1, 0, -1, 0, 0, 0, -1, 0, 0, 0, -1, 0]
    places = sorted_places([(java_order(key), time) for key, time in zip(keys, times, strict=True)])
    assert places[:2] == [2, 1]


def test_few_records_without_timestamps_come_as_they_arrived():
    given = [(bytes([number % 3]), ((number, "text"), None)) for number in range(18)]
    sort = ExternalSort(1 << 30, lambda key: key[0])
    assert sorted_by(sort, given) == in_expected_order(given)
    # With timestamps, even equal ones, Flink's sorter moves them.
    timed = [(key, (value, 7)) for key, (value, _) in given]
    sort = ExternalSort(1 << 30, lambda key: key[0])
    assert sorted_by(sort, timed) != in_expected_order(timed)
