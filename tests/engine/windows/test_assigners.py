"""Windows and their assigners: what the recorded facts about Flink leave out."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceproof.engine.durations import Duration, Time
from onceproof.engine.elements import MAX_WATERMARK, MIN_WATERMARK
from onceproof.engine.windows.assigners import (
    AssignerContext,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    GlobalWindows,
    NoTimestamp,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from onceproof.engine.windows.triggers import EventTimeTrigger, NeverTrigger, ProcessingTimeTrigger
from onceproof.engine.windows.windows import GlobalWindow, TimeWindow, WindowMergeCallback


class At(AssignerContext):
    """A processing time."""

    def __init__(self, now):
        self.now = now

    def get_current_processing_time(self):
        return self.now

    def get_runtime_context(self):
        raise NotImplementedError


class Length(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return element


def spans(windows):
    return [(window.start, window.end) for window in windows]


@given(
    timestamp=st.integers(-(10**15), 10**15),
    size=st.integers(1, 10**9),
    slide=st.integers(1, 10**9),
    data=st.data(),
)
def test_windows_hold_their_timestamp_and_begin_at_multiples_of_the_slide(timestamp, size, slide, data):
    size = min(size, 50 * slide)
    offset = data.draw(st.integers(-slide + 1, slide - 1))
    windows = SlidingEventTimeWindows(size, slide, offset).assign_windows(None, timestamp, At(0))
    assert all(window.start <= timestamp < window.end for window in windows)
    assert all((window.start - offset) % slide == 0 for window in windows)
    assert [window.start for window in windows] == sorted({window.start for window in windows}, reverse=True)
    # As many as fit: those whose start is in (timestamp - size, timestamp].
    first, last = timestamp - size + 1, timestamp
    assert len(windows) == (last - offset) // slide - (first - 1 - offset) // slide


@pytest.mark.parametrize("offset", [-999, -1, 0, 1, 999])
@pytest.mark.parametrize("timestamp", [-1000, -999, -1, 0, 1, 999, 1000])
def test_tumbling_windows_are_sliding_ones_whose_slide_is_their_size(timestamp, offset):
    tumbling = TumblingEventTimeWindows(1000, offset).assign_windows(None, timestamp, At(0))
    assert list(tumbling) == list(
        SlidingEventTimeWindows(1000, 1000, offset).assign_windows(None, timestamp, At(0))
    )
    assert tumbling[0].start == TimeWindow.get_window_start_with_offset(timestamp, offset, 1000)


@pytest.mark.parametrize(
    ("assigner", "expected"),
    [
        (TumblingProcessingTimeWindows.of(Time.milliseconds(10)), [(20, 30)]),
        (TumblingProcessingTimeWindows.of(Duration.of_millis(10), Duration.of_millis(3)), [(23, 33)]),
        (SlidingProcessingTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5)), [(25, 35), (20, 30)]),
        (ProcessingTimeSessionWindows.with_gap(Time.milliseconds(7)), [(27, 34)]),
        (ProcessingTimeSessionWindows.with_dynamic_gap(Length()), [(27, 32)]),
    ],
)
def test_windows_of_processing_time_are_those_of_the_arrival(assigner, expected):
    assert spans(assigner.assign_windows(5, None, At(27))) == expected
    assert not assigner.is_event_time()
    assert isinstance(assigner.get_default_trigger(None), ProcessingTimeTrigger)


def test_gap_of_a_session_may_come_from_the_record():
    assigner = EventTimeSessionWindows.with_dynamic_gap(Length())
    assert isinstance(assigner, DynamicEventTimeSessionWindows)
    assert spans(assigner.assign_windows(5, 100, At(0))) == [(100, 105)]
    with pytest.raises(ValueError, match="above 0 milliseconds, not 0"):
        assigner.assign_windows(0, 100, At(0))
    with pytest.raises(TypeError, match="SessionWindowTimeGapExtractor"):
        EventTimeSessionWindows.with_dynamic_gap(len)


@pytest.mark.parametrize("timestamp", [None, MIN_WATERMARK])
@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows(10),
        SlidingEventTimeWindows(10, 5),
        EventTimeSessionWindows(10),
        DynamicEventTimeSessionWindows(Length()),
    ],
)
def test_record_without_a_timestamp_is_an_error_with_the_mend(assigner, timestamp):
    with pytest.raises(NoTimestamp, match="assign_timestamps_and_watermarks"):
        assigner.assign_windows(5, timestamp, At(0))


@pytest.mark.parametrize(
    "make",
    [
        lambda: TumblingEventTimeWindows.of(Time.milliseconds(0)),
        lambda: TumblingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(-10)),
        lambda: SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(0)),
        lambda: SlidingEventTimeWindows.of(Time.milliseconds(0), Time.milliseconds(5)),
        lambda: SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(5), Time.seconds(5)),
        lambda: EventTimeSessionWindows.with_gap(Time.milliseconds(0)),
        lambda: ProcessingTimeSessionWindows.with_gap(Time.milliseconds(-1)),
    ],
    ids=range(7),
)
def test_impossible_windows_are_refused(make):
    with pytest.raises(ValueError, match="window"):
        make()


def test_a_length_has_a_unit():
    with pytest.raises(TypeError, match="size is 5: give a Duration or a Time"):
        TumblingEventTimeWindows.of(5)


def test_global_windows_hold_everything_and_never_end():
    assigner = GlobalWindows.create()
    (window,) = assigner.assign_windows("anything", None, At(0))
    assert window is GlobalWindow.get()
    assert window.max_timestamp() == MAX_WATERMARK
    assert isinstance(assigner.get_default_trigger(None), NeverTrigger)


@pytest.mark.parametrize(
    ("assigner", "window"),
    [(TumblingEventTimeWindows(10), TimeWindow(-10, 0)), (GlobalWindows.create(), GlobalWindow.get())],
)
def test_a_window_survives_its_stored_form(assigner, window):
    serializer = assigner.get_window_serializer()
    data = serializer.to_data(window)
    stored = serializer.window_type.encode(data)
    assert serializer.from_data(serializer.window_type.decode(stored)) == window
    assert isinstance(assigner.get_default_trigger(None), EventTimeTrigger | NeverTrigger)


class Groups(WindowMergeCallback):
    def __init__(self):
        self.merged = []

    def merge(self, to_be_merged, merge_result):
        self.merged.append((sorted(to_be_merged), merge_result))


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 10)), max_size=12))
def test_merged_windows_are_disjoint_and_cover_their_parts(lengths):
    windows = [TimeWindow(start, start + length) for start, length in lengths]
    groups = Groups()
    TimeWindow.merge_windows(windows, groups)
    members = [window for group, _ in groups.merged for window in group]
    assert len(members) == len(set(members))
    left = sorted([*(set(windows) - set(members)), *[result for _, result in groups.merged]])
    for earlier, later in pairwise(left):
        assert earlier.end < later.start
    for group, result in groups.merged:
        assert len(group) > 1
        assert result == TimeWindow(min(group).start, max(window.end for window in group))
