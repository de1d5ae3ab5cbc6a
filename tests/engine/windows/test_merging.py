"""Windows of a key that become one, and where their contents stay."""

import pytest

from onceproof.engine.durations import Time
from onceproof.engine.windows.assigners import EventTimeSessionWindows
from onceproof.engine.windows.merging import MergingWindowSet
from onceproof.engine.windows.windows import TimeWindow

SESSIONS = EventTimeSessionWindows.with_gap(Time.milliseconds(3))


def window(start, end):
    return TimeWindow(start, end)


class MergeRecorder:
    """Notes what is merged."""

    def __init__(self):
        self.merges = []

    def __call__(self, merged, old, state_window, emptied):
        self.merges.append((merged, sorted(old), state_window, emptied))


@pytest.fixture
def recorder():
    return MergeRecorder()


def test_a_window_by_itself_keeps_its_own_contents(recorder):
    windows = MergingWindowSet(SESSIONS, [])
    assert windows.add(window(0, 3), recorder) == window(0, 3)
    assert windows.state_window(window(0, 3)) == window(0, 3)
    assert windows.add(window(10, 13), recorder) == window(10, 13)
    assert recorder.merges == []
    assert windows.has_changed


def test_growing_window_keeps_its_state_window(recorder):
    windows = MergingWindowSet(SESSIONS, [(window(0, 3), window(0, 3))])
    assert windows.add(window(2, 5), recorder) == window(0, 5)
    assert windows.pairs() == [(window(0, 5), window(0, 3))]
    assert recorder.merges == [(window(0, 5), [window(0, 3)], window(0, 3), [])]


def test_a_window_between_two_brings_them_together(recorder):
    pairs = [(window(0, 3), window(0, 3)), (window(5, 9), window(5, 8))]
    windows = MergingWindowSet(SESSIONS, pairs)
    assert windows.add(window(3, 6), recorder) == window(0, 9)
    assert windows.pairs() == [(window(0, 9), window(0, 3))]
    assert recorder.merges == [(window(0, 9), [window(0, 3), window(5, 9)], window(0, 3), [window(5, 8)])]


def test_window_within_another_triggers_no_merge(recorder):
    windows = MergingWindowSet(SESSIONS, [(window(0, 9), window(0, 3))])
    assert windows.add(window(4, 7), recorder) == window(0, 9)
    assert windows.pairs() == [(window(0, 9), window(0, 3))]
    assert recorder.merges == []


def test_existing_window_keeps_its_state_window(recorder):
    windows = MergingWindowSet(SESSIONS, [(window(0, 9), window(0, 3))])
    assert windows.add(window(0, 9), recorder) == window(0, 9)
    assert windows.state_window(window(0, 9)) == window(0, 3)
    assert not windows.has_changed
    assert recorder.merges == []


def test_a_retired_window_is_gone_and_cannot_be_retired_again():
    windows = MergingWindowSet(SESSIONS, [(window(0, 3), window(0, 3))])
    windows.retire(window(0, 3))
    assert windows.state_window(window(0, 3)) is None
    with pytest.raises(KeyError, match="not in the set"):
        windows.retire(window(0, 3))


class Together(EventTimeSessionWindows):
    """Merges all windows, of whatever class."""

    def merge_windows(self, windows, callback):
        callback.merge(list(windows), "".join(windows))


def test_windows_of_a_class_of_the_users_are_merged_in_the_order_they_came():
    windows = MergingWindowSet(Together(5), [("a", "a"), ("b", "b")])
    merges = []
    assert windows.add("c", lambda *merge: merges.append(merge)) == "abc"
    assert merges == [("abc", ["a", "b"], "a", ["b"])]
    assert windows.pairs() == [("abc", "a")]
