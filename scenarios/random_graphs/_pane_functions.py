"""Windows of every kind for random jobs, in words; ``_functions.py`` has the rules.

A vertex of kind ``panes`` says its windows as ``session.purging_count.time_after.30.process.event.idle``, in
the order of ``_panes.py``. Its values are passed on beside them, so the oracles need not know what fires: the
specification of windows does. The functions emit a row only for what they find wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from onceproof.engine import (
    AggregatingStateDescriptor,
    CheckpointListener,
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    DeltaEvictor,
    Duration,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    KeyedStream,
    ListStateDescriptor,
    MapStateDescriptor,
    NeverTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    ProcessWindowFunction,
    PurgingTrigger,
    ReducingStateDescriptor,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    Time,
    TimeEvictor,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
    WindowFunction,
)
from onceproof.scenarios.random_graphs._functions import (
    GAP_MS,
    SIZE_MS,
    SLIDE_MS,
    STAMPED,
    VALUE,
    Sum,
    Value,
    lasting,
    plus,
)
from onceproof.scenarios.random_graphs._meeting_functions import Gather, together

EVERY_MS: Final = 25
QUIET_MS: Final = 4
"""After so long a stream without values is idle."""
COUNT: Final = 3


class GapByNumber(SessionWindowTimeGapExtractor):
    """A gap of 5 to 45 milliseconds."""

    def extract(self, element: Value) -> int:
        return 5 + 10 * (element[3] % 5)


def difference_of(one: Value, other: Value) -> float:
    """Return by how much the numbers of two values differ."""
    return abs(one[3] - other[3])


def pane_assigner(kind: str, in_event_time: bool) -> Any:
    """Return the assigner of a name."""
    size, slide, gap = [Time.milliseconds(each) for each in (SIZE_MS, SLIDE_MS, GAP_MS)]
    sessions = EventTimeSessionWindows if in_event_time else ProcessingTimeSessionWindows
    match kind:
        case "tumbling":
            return (TumblingEventTimeWindows if in_event_time else TumblingProcessingTimeWindows).of(size)
        case "sliding":
            sliding = SlidingEventTimeWindows if in_event_time else SlidingProcessingTimeWindows
            return sliding.of(size, slide)
        case "session":
            return sessions.with_gap(gap)
        case "dynamic":
            return sessions.with_dynamic_gap(GapByNumber())
        case "count":
            return CountTumblingWindowAssigner.of(COUNT)
        case "overlapping":
            return CountSlidingWindowAssigner.of(COUNT, 2)
        case _:
            return GlobalWindows.create()


def pane_trigger(kind: str, in_event_time: bool) -> Any:
    """Return the trigger of a name."""
    match kind:
        case "end" | "other_end":
            by_event = (kind == "end") is in_event_time
            return EventTimeTrigger.create() if by_event else ProcessingTimeTrigger.create()
        case "every" | "other_every":
            by_event = (kind == "every") is in_event_time
            every = ContinuousEventTimeTrigger if by_event else ContinuousProcessingTimeTrigger
            return every.of(Time.milliseconds(EVERY_MS))
        case "count":
            return CountTrigger.of(COUNT)
        case "lasting_count":
            counting = CountTrigger.of(COUNT)
            lasting(counting.count_descriptor, True)
            return counting
        case "never":
            return NeverTrigger()
        case _:
            return PurgingTrigger.of(pane_trigger(kind.removeprefix("purging_"), in_event_time))


def pane_evictor(kind: str) -> Any:
    """Return the evictor of a name."""
    name, _, after = kind.partition("_")
    match name:
        case "count":
            return CountEvictor.of(COUNT - 1, bool(after))
        case "time":
            return TimeEvictor.of(Time.milliseconds(SLIDE_MS), bool(after))
        case _:
            return DeltaEvictor.of(7, difference_of, bool(after))


class PaneByProcess(ProcessWindowFunction, CheckpointListener):
    """Counts the firings of a window in four states of its own and in one of its key, which agree."""

    def __init__(self, name: str) -> None:
        self._own = ValueStateDescriptor(f"{name} firings", Types.LONG())
        self._listed = ListStateDescriptor(f"{name} listed firings", Types.LONG())
        self._reduced = ReducingStateDescriptor(f"{name} reduced firings", plus, Types.LONG())
        self._aggregated = AggregatingStateDescriptor(f"{name} aggregated firings", Sum(), Types.LONG())
        self._all = MapStateDescriptor(f"{name} all firings", Types.STRING(), Types.LONG())

    def process(self, key: str, context: Any, elements: Iterable[Value | None]) -> Iterator[Value]:
        of_key = context.global_state().get_map_state(self._all)
        window, others = (
            str(context.window()),
            [value for value in elements if value and value[1] not in ("", key)],
        )
        if others:
            yield "another key", key, f"{others}", 0
        try:
            own, listed, reduced, aggregated = self._states_of(context)
        except TypeError:
            # Windows that merge have no state of their own.
            return
        before = (own.value() or 0), (of_key.get(window) or 0)
        counts = len(list(listed.get())), reduced.get() or 0, aggregated.get() or 0
        if {*before, *counts} != {before[0]}:
            yield "window state", key, f"{window} has fired {before}, and {counts}", 0
        own.update(before[0] + 1)
        listed.add(before[0])
        reduced.add(1)
        aggregated.add(1)
        of_key.put(window, before[0] + 1)

    def _states_of(self, context: Any) -> tuple[Any, Any, Any, Any]:
        """Return the states of a window. Raises TypeError where it has none."""
        store = context.window_state()
        return (
            store.get_state(self._own),
            store.get_list_state(self._listed),
            store.get_reducing_state(self._reduced),
            store.get_aggregating_state(self._aggregated),
        )

    def clear(self, context: Any) -> None:
        """Forget the window: nothing of it stays."""
        of_key = context.global_state().get_map_state(self._all)
        window = str(context.window())
        if of_key.contains(window):
            for state in self._states_of(context):
                state.clear()
            of_key.remove(window)


class PaneByApply(WindowFunction):
    """Emits nothing, unless a window has a value of another key."""

    def apply(self, key: str, window: Any, inputs: Iterable[Value | None]) -> list[Value]:
        others = [value for value in inputs if value and value[1] not in ("", key)]
        return [("another key", key, f"{others}", 0)] if others else []


def watermarks_of(said: str) -> WatermarkStrategy:
    """Return how the values of windows get timestamps, and whether their streams may turn idle."""
    is_idle = said.split(".")[-1] == "idle"
    return STAMPED.with_idleness(Duration.of_millis(QUIET_MS)) if is_idle else STAMPED


def panes_of(keyed: KeyedStream, said: str, name: str) -> Any:
    """Return the rows of what is wrong in the windows of a stream, which ``said`` names."""
    assigner, trigger, evictor, lateness, function, domain, _ = said.split(".")
    in_event_time = domain == "event"
    windows = keyed.window(pane_assigner(assigner, in_event_time))
    if trigger != "default":
        windows = windows.trigger(pane_trigger(trigger, in_event_time))
    if evictor != "none":
        windows = windows.evictor(pane_evictor(evictor))
    if lateness != "0":
        windows = windows.allowed_lateness(int(lateness))
    match function:
        case "process":
            return windows.process(PaneByProcess(name), VALUE)
        case "apply":
            return windows.apply(PaneByApply(), VALUE)
        case "reduce":
            return windows.reduce(together, PaneByProcess(name), VALUE)
        case _:
            gathered = Types.TUPLE([Types.LIST(Types.STRING()), Types.LONG()])
            return windows.aggregate(Gather(), PaneByApply(), gathered, VALUE)
