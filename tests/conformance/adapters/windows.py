"""Windows: drives onceproof.engine.windows, and runs jobs on the local runtime."""

import importlib.util
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from onceproof.engine.api.datastream import DataStream, WindowedStream
from onceproof.engine.durations import Time
from onceproof.engine.elements import MIN_WATERMARK
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.types import Types
from onceproof.engine.windows.assigners import (
    AssignerContext,
    EventTimeSessionWindows,
    GlobalWindows,
    NoTimestamp,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from onceproof.engine.windows.evictors import CountEvictor, Evictor, TimeEvictor
from onceproof.engine.windows.triggers import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    PurgingTrigger,
    Trigger,
)
from onceproof.engine.windows.window_functions import ProcessWindowFunction, WindowContext
from onceproof.engine.windows.windows import TimeWindow, WindowMergeCallback

LATE = OutputTag("late", Types.DYNAMIC())


def sibling(name: str) -> Any:
    """Load another module of adapters; adapters are files without a package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TIMERS = sibling("timers")


class NoContext(AssignerContext):
    """The context of assigners of event-time windows, which do not use it."""

    def get_current_processing_time(self) -> int:
        raise NotImplementedError

    def get_runtime_context(self) -> Any:
        raise NotImplementedError


def assigner_of(given: dict[str, Any]) -> WindowAssigner:
    def time(name: str) -> Time:
        return Time.milliseconds(given.get(name, 0))

    kind = given["assigner"]
    if kind == "tumbling":
        return TumblingEventTimeWindows.of(time("size_ms"), time("offset_ms"))
    if kind == "sliding":
        return SlidingEventTimeWindows.of(time("size_ms"), time("slide_ms"), time("offset_ms"))
    if kind == "session":
        return EventTimeSessionWindows.with_gap(time("gap_ms"))
    if kind == "global":
        return GlobalWindows.create()
    raise ValueError(f"unknown assigner {kind}")


def assign(given: dict[str, Any]) -> dict[str, Any]:
    try:
        assigner = assigner_of(given)
        windows = [
            assigner.assign_windows(None, None if timestamp == MIN_WATERMARK else timestamp, NoContext())
            for timestamp in given["timestamps"]
        ]
    except NoTimestamp:
        return {"error": "RuntimeException"}
    except ValueError:
        return {"error": "IllegalArgumentException"}
    return {"windows": [[[window.start, window.end] for window in each] for each in windows]}


def merge(given: dict[str, Any]) -> dict[str, Any]:
    merges: list[dict[str, Any]] = []

    class Written(WindowMergeCallback):
        def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
            merged = [[window.start, window.end] for window in to_be_merged]
            merges.append({"result": [merge_result.start, merge_result.end], "merged": merged})

    windows = [TimeWindow(start, end) for start, end in given["windows"]]
    EventTimeSessionWindows.with_gap(Time.milliseconds(1)).merge_windows(windows, Written())
    return {"merges": merges}


class Shown(ProcessWindowFunction):
    """Emits the window, its key, and its elements or their sum."""

    def __init__(self, shows: str) -> None:
        self.shows = shows

    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Iterator[dict[str, Any]]:
        window = context.window()
        span = [window.start, window.end] if isinstance(window, TimeWindow) else ["global"]
        values = [value for _, value in elements]
        yield {"key": key, "window": span, self.shows: values[0] if self.shows == "sum" else values}


def trigger_of(form: list[Any]) -> Trigger:
    kind, *arguments = form
    if kind == "purging":
        return PurgingTrigger.of(trigger_of(arguments[0]))
    if kind == "continuous":
        return ContinuousEventTimeTrigger.of(Time.milliseconds(arguments[0]))
    makers: dict[str, Callable[..., Trigger]] = {
        "event_time": EventTimeTrigger.create,
        "count": CountTrigger.of,
        "never": NeverTrigger,
    }
    return makers[kind](*arguments)


def evictor_of(form: list[Any]) -> Evictor:
    kind, amount, *after = form
    if kind == "count":
        return CountEvictor.of(amount, bool(after))
    if kind == "time":
        return TimeEvictor.of(Time.milliseconds(amount), bool(after))
    raise ValueError(f"unknown evictor {form}")


def windowed(stream: DataStream, given: dict[str, Any]) -> WindowedStream:
    keyed = stream.key_by(lambda pair: pair[0], Types.STRING())
    if given["assigner"] == "count":
        return keyed.count_window(given["size"])
    if given["assigner"] == "count_sliding":
        # Flink's Java API; PyFlink's count_window evaluates full windows only.
        windows = keyed.window(GlobalWindows.create())
        return windows.evictor(CountEvictor.of(given["size"])).trigger(CountTrigger.of(given["slide"]))
    return keyed.window(assigner_of(given))


def operator(given: dict[str, Any]) -> dict[str, Any]:
    elements = TIMERS.elements_of(given["events"])
    stream = windowed(elements.map(lambda event: (event[1], event[2])), given)
    if "allowed_lateness_ms" in given:
        stream = stream.allowed_lateness(given["allowed_lateness_ms"])
    if given.get("late_side_output"):
        stream = stream.side_output_late_data(LATE)
    if "trigger" in given:
        stream = stream.trigger(trigger_of(given["trigger"]))
    if "evictor" in given:
        stream = stream.evictor(evictor_of(given["evictor"]))
    if given["function"] == "reduce_sum":
        worked_out = stream.reduce(lambda left, right: (left[0], left[1] + right[1]), Shown("sum"))
    elif given["function"] == "collect":
        worked_out = stream.process(Shown("values"))
    else:
        raise ValueError(f"unknown function {given['function']}")
    late = worked_out.get_side_output(LATE) if given.get("late_side_output") else None
    return {"output": TIMERS.written_by(worked_out, late)}


def unordered(given: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Sort the output as for timers, and the records of merged windows: Flink leaves their order open."""
    answer = TIMERS.unordered(given, answer)
    if given["assigner"] == "session":
        for entry in answer["output"]:
            if entry[0] == "out" and "values" in entry[1]:
                entry[1]["values"].sort()
    return answer


ADAPTERS = {"window.assign": assign, "window.merge": merge, "window.operator": operator}
UNORDERED = {"window.operator": unordered}
