"""Timers of event time: runs a job on the local runtime, whose source gives the vector's events."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from onceproof.engine.api.datastream import DataStream, StreamExecutionEnvironment
from onceproof.engine.configuration import Configuration
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.elements import MAX_WATERMARK, Record, Watermark
from onceproof.engine.functions import KeyedProcessFunction
from onceproof.engine.operators.base import Operator
from onceproof.engine.types import Types
from onceproof.engine.watermarks.generators import WatermarkGenerator, WatermarkOutput
from onceproof.engine.watermarks.strategy import WatermarkStrategy

Written = list[list[Any]]

STEP_BY_STEP = {"pipeline.buffer-records": 1, "pipeline.channel-buffers": 1}
"""Buffers of one record: the effects of an event are recorded before the next one."""


class FromEvents(WatermarkGenerator):
    """Emits a watermark for each event ``[w, timestamp]``."""

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        if event[0] == "w":
            output.emit_watermark(Watermark(event[1]))

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


class Recorder(Operator):
    """Records the elements that reach the end of the job, watermarks included."""

    def __init__(self, written: Written, kind: str) -> None:
        self.written = written
        self.kind = kind

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        self.written.extend([[self.kind, value, timestamp] for value, timestamp in records])
        return []

    def process_watermark(self, timestamp: int) -> list[Record]:
        entry = ["wm", "MAX" if timestamp == MAX_WATERMARK else timestamp]
        if self.kind == "out" and self.written[-1:] != [entry]:
            self.written.append(entry)
        return []


def elements_of(events: list[list[Any]]) -> DataStream:
    """Return a stream of the events' elements and watermarks."""
    configuration = Configuration.from_mapping(STEP_BY_STEP)
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    for event in events:
        if event[0] not in ("e", "w"):
            raise ValueError(f"unknown event {event}")
    # Flink's script gave an event without a timestamp the default of Java's long.
    source = CollectionSource({"events": [(event, event[3] if len(event) > 3 else 0) for event in events]})
    strategy = WatermarkStrategy.for_generator(lambda context: FromEvents())
    return environment.from_source(source, strategy, "events").filter(lambda event: event[0] == "e")


def written_by(stream: DataStream, late: DataStream | None = None) -> Written:
    """Run the job and return its output in order."""
    written: Written = []
    stream._transform("written", lambda: Recorder(written, "out"), None)
    if late is not None:
        late._transform("late", lambda: Recorder(written, "late"), None)
    stream.get_execution_environment().execute("vector")
    return written


class TimerActions(KeyedProcessFunction):
    """Registers and deletes the timers that an event names; the timer at 1000 registers one at 1001."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[dict[str, Any]]:
        timers = ctx.timer_service()
        for verb, timestamp in value[2]:
            if verb == "reg":
                timers.register_event_time_timer(timestamp)
            elif verb == "del":
                timers.delete_event_time_timer(timestamp)
            elif verb == "emit_wm":
                yield {"key": ctx.get_current_key(), "current_watermark": reached(ctx)}
            else:
                raise ValueError(f"unknown action {verb}")

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[dict[str, Any]]:
        if timestamp == 1000:
            ctx.timer_service().register_event_time_timer(1001)
        yield {"timer": timestamp, "key": ctx.get_current_key(), "current_watermark": reached(ctx)}


def reached(ctx: KeyedProcessFunction.Context) -> int | str:
    watermark = ctx.timer_service().current_watermark()
    return "MAX" if watermark == MAX_WATERMARK else watermark


def keyed_process(given: dict[str, Any]) -> dict[str, Any]:
    keyed = elements_of(given["events"]).key_by(lambda event: event[1], Types.STRING())
    return {"output": written_by(keyed.process(TimerActions()))}


def unordered(given: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Sort the output of one timestamp by key: Flink leaves that order open."""
    output: Written = []
    for at, run in groupby(answer.get("output", ()), key=lambda entry: (entry[0], entry[-1])):
        entries = list(run)
        output.extend(sorted(entries, key=lambda entry: entry[1]["key"]) if at[0] == "out" else entries)
    return {**answer, "output": output}


ADAPTERS = {"timer.keyed_process": keyed_process}
UNORDERED = {"timer.keyed_process": unordered}
