"""How many records a turn takes: paces, and buffers that are cut and joined."""

from collections import deque

import pytest

from onceproof.engine.elements import Watermark
from onceproof.engine.runtime.task_turns import Pace, head_of

MS = 1_000_000


def records(*values):
    return [(value, None) for value in values]


def pace_after(*turns, most=1000, channels=1, timeout_ms=100):
    pace = Pace(most, channels, timeout_ms)
    for count, elapsed_ns in turns:
        pace.took(count, elapsed_ns)
    return pace


def test_first_turn_takes_one_record():
    assert Pace(1000, 1, 100).limit == 1


def test_turns_of_a_fast_task_double_up_to_a_whole_buffer():
    limits = []
    pace = Pace(1000, 1, 100)
    for _ in range(12):
        limits.append(pace.limit)
        pace.took(pace.limit, pace.limit * 1000)
    assert limits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000]
    assert not pace.is_slow


@pytest.mark.parametrize(("record_ms", "limit"), [(10, 1), (1, 5), (0.5, 10)])
def test_turn_of_a_slow_task_fits_its_share_of_the_timeout(record_ms, limit):
    pace = Pace(1000, 1, 100)
    for _ in range(60):
        pace.took(pace.limit, int(pace.limit * record_ms * MS))
    assert pace.is_slow
    assert pace.limit == limit


def test_backlog_of_a_slow_task_is_shared_by_its_channels():
    turns = [(1, 2 * MS)] * 40
    assert pace_after(*turns).backlog in (19, 20)
    assert pace_after(*turns, channels=4).backlog in (4, 5)
    assert pace_after(*turns, channels=100).backlog == 1


def test_one_long_pause_slows_a_fast_task_for_some_turns_only():
    fast = [(1000, MS)] * 12
    pace = pace_after(*fast, (1000, 400 * MS))
    assert pace.limit < 20
    for _ in range(20):
        pace.took(pace.limit, pace.limit * 1000)
    assert pace.limit == 1000
    assert not pace.is_slow


def test_turn_without_records_changes_nothing():
    assert pace_after((1, MS), (0, 500 * MS)).limit == pace_after((1, MS)).limit


def test_timeout_of_zero_gives_each_record_its_turn():
    pace = pace_after(*[(1, 1000)] * 20, timeout_ms=0)
    assert pace.limit == 1
    assert pace.is_slow
    assert pace.backlog == 1


def test_without_a_timeout_turns_take_whole_buffers():
    assert pace_after((1, 400 * MS), timeout_ms=-1).limit == 1000


def test_long_buffer_is_cut_and_its_rest_stays_behind():
    buffer = records(1, 2, 3, 4, 5)
    queue = deque([buffer, Watermark(7)])
    assert head_of(queue, 2) == 2
    assert list(queue) == [records(1, 2), records(3, 4, 5), Watermark(7)]
    assert buffer == records(1, 2, 3, 4, 5)


def test_short_buffers_are_joined_up_to_what_is_no_buffer():
    first, second = records(1), records(2, 3)
    queue = deque([first, second, Watermark(7), records(4)])
    assert head_of(queue, 100) == 3
    assert list(queue) == [records(1, 2, 3), Watermark(7), records(4)]
    assert (first, second) == (records(1), records(2, 3))


def test_joined_buffers_have_no_more_records_than_the_turn():
    queue = deque([records(*range(40)), records(*range(40)), records(*range(40))])
    assert head_of(queue, 100) == 80
    assert list(map(len, queue)) == [80, 40]


def test_buffers_are_not_joined_for_a_short_turn():
    queue = deque([records(1), records(2)])
    assert head_of(queue, 8) == 1
    assert list(queue) == [records(1), records(2)]


def test_control_element_is_no_buffer():
    queue = deque([Watermark(7), records(1)])
    assert head_of(queue, 8) == 0
    assert list(queue) == [Watermark(7), records(1)]
