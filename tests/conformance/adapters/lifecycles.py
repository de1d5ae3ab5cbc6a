"""The calls of an operator at the end of a job: runs one on the local runtime, ends it as the vector says.

The engine's ``finish`` is Flink's ``endInput`` and ``finish`` in one call, which nothing comes between.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from onceproof.engine.api.datastream import StreamExecutionEnvironment
from onceproof.engine.api.job_client import JobClient
from onceproof.engine.configuration import Configuration
from onceproof.engine.connectors.source import Source, SplitReader
from onceproof.engine.elements import MAX_WATERMARK, Record, Watermark
from onceproof.engine.functions import KeyedProcessFunction
from onceproof.engine.operators.process import TimedProcessOperator
from onceproof.engine.state.snapshot import OperatorSnapshot
from onceproof.engine.types import Types
from onceproof.engine.watermarks.generators import WatermarkGenerator, WatermarkOutput
from onceproof.engine.watermarks.strategy import WatermarkStrategy
from tests.patience import PATIENCE_SECONDS

PAUSE_SECONDS = 0.001

End: TypeAlias = Callable[[JobClient, str], Any]


def savepoint_then_cancel(client: JobClient, folder: str) -> None:
    client.trigger_savepoint(folder).result(PATIENCE_SECONDS)
    client.cancel().result(PATIENCE_SECONDS)


BOUNDED = "bounded input, "
ENDS: dict[str, End] = {
    f"{BOUNDED}checkpointing enabled": lambda client, folder: None,
    f"{BOUNDED}checkpointing disabled": lambda client, folder: None,
    "stop with savepoint, drain": lambda client, folder: client.stop_with_savepoint(True, folder).result(
        PATIENCE_SECONDS
    ),
    "stop with savepoint, no drain": lambda client, folder: client.stop_with_savepoint(False, folder).result(
        PATIENCE_SECONDS
    ),
    "savepoint while running, then cancel": savepoint_then_cancel,
    "cancel": lambda client, folder: client.cancel().result(PATIENCE_SECONDS),
}


class Events(Source):
    """Gives two events; where it is not bounded, records that are filtered out follow without end."""

    EVENTS = (("e", 10), ("w", 20))

    def __init__(self, is_bounded: bool) -> None:
        self.is_bounded = is_bounded

    def splits(self) -> list[str]:
        return ["events"]

    def open_split(self, split: str, position: Any | None) -> SplitReader:
        return EventReader(position or 0, self.is_bounded)


class EventReader(SplitReader):
    def __init__(self, position: int, is_bounded: bool) -> None:
        self.begun = position
        self.is_bounded = is_bounded

    @property
    def position(self) -> int:
        return self.begun

    @property
    def exhausted(self) -> bool:
        return self.is_bounded and self.begun == len(Events.EVENTS)

    def read(self, limit: int) -> list[Record]:
        if self.begun < len(Events.EVENTS):
            event = Events.EVENTS[self.begun]
            self.begun += 1
            return [(event, event[1])]
        if self.is_bounded:
            return []
        time.sleep(PAUSE_SECONDS)
        return [(("nothing", 20), 20)]

    def close(self) -> None:
        pass


class EveryRecordWatermarks(WatermarkGenerator):
    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        if event[0] == "w":
            output.emit_watermark(Watermark(event[1]))

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


class OneTimer(KeyedProcessFunction):
    def __init__(self, calls: list[str]) -> None:
        self.calls = calls

    def __deepcopy__(self, memo: object) -> "OneTimer":
        return self

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        if value[0] == "e":
            ctx.timer_service().register_event_time_timer(1000)
        return iter(())

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        self.calls.append(f"timer {timestamp}")
        return iter(())


class Recording(TimedProcessOperator):
    """Records each call after watermark 20, and passes it on to the engine's operator."""

    def __init__(self, calls: list[str], begun: threading.Event) -> None:
        super().__init__(OneTimer(calls), lambda event: "key", Types.STRING())
        self.calls = calls
        self.begun = begun

    def process_watermark(self, timestamp: int) -> list[Record]:
        if timestamp == MAX_WATERMARK:
            self.calls.append("processWatermark MAX")
        records = super().process_watermark(timestamp)
        if timestamp == 20:
            self.calls.clear()
            self.begun.set()
        return records

    def finish(self) -> list[Record]:
        self.calls.extend(["endInput", "finish"])
        return super().finish()

    def prepare_snapshot(self, checkpoint_id: int) -> list[Record]:
        self.calls.append("prepareSnapshotPreBarrier")
        return super().prepare_snapshot(checkpoint_id)

    def snapshot(self, checkpoint_id: int, timestamp_ms: int) -> OperatorSnapshot | None:
        self.calls.append("snapshotState")
        return super().snapshot(checkpoint_id, timestamp_ms)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.calls.append("notifyCheckpointComplete")
        super().notify_checkpoint_complete(checkpoint_id)

    def close(self) -> None:
        self.calls.append("close")
        super().close()


def lifecycle(given: dict[str, Any]) -> dict[str, Any]:
    mode = given["mode"]
    end = ENDS[mode]
    options = {"pipeline.buffer-records": 1, "restart-strategy.type": "none"}
    if "checkpointing disabled" not in mode:
        # Too long for a periodic checkpoint in between.
        options["execution.checkpointing.interval"] = "1 h"
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    strategy = WatermarkStrategy.for_generator(lambda context: EveryRecordWatermarks())
    calls: list[str] = []
    begun = threading.Event()
    source = Events(is_bounded=mode.startswith(BOUNDED))
    events = environment.from_source(source, strategy, "events").filter(lambda event: event[0] != "nothing")
    keyed = events.key_by(lambda event: "key", Types.STRING())
    keyed._transform("recording", lambda: Recording(calls, begun), None)
    client = environment.execute_async("lifecycle")
    assert begun.wait(PATIENCE_SECONDS), "watermark 20 never came"
    with tempfile.TemporaryDirectory() as folder:
        end(client, folder)
        client.get_job_execution_result().exception(PATIENCE_SECONDS)
    return {"calls_after_watermark_20": calls}


ADAPTERS = {"lifecycle": lifecycle}
