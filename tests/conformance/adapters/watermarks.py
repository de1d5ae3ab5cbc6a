"""Event time: drives onceproof.engine.watermarks."""

from typing import Any

from onceproof.engine.durations import Duration
from onceproof.engine.elements import MIN_WATERMARK, Watermark
from onceproof.engine.watermarks.combined import CombinedWatermark
from onceproof.engine.watermarks.generators import WatermarkOutput
from onceproof.engine.watermarks.strategy import WatermarkGeneratorContext, WatermarkStrategy
from onceproof.engine.watermarks.valve import WatermarkValve


def valve(given: dict[str, Any]) -> dict[str, Any]:
    tested = WatermarkValve(given["channels"])
    outputs = []
    for event in given["events"]:
        kind, channel = event[:2]
        if kind == "wm":
            elements = tested.watermark(channel, event[2])
        elif kind in ("idle", "active"):
            elements = tested.status(channel, kind == "idle")
        else:
            raise ValueError(f"unknown event {event}")
        outputs.append([described(element) for element in elements])
    return {"output_per_event": outputs}


def described(element: Any) -> list[Any]:
    if type(element) is Watermark:
        return ["wm", element.timestamp]
    return ["idle" if element.is_idle else "active"]


def combine(given: dict[str, Any]) -> dict[str, Any]:
    tested = CombinedWatermark(range(given["inputs"]))
    assert tested.watermark == MIN_WATERMARK
    trace = []
    for event in given["events"]:
        kind, part = event[:2]
        if kind == "wm":
            advanced = tested.update(part, event[2])
        elif kind in ("idle", "active"):
            advanced = tested.update_status(part, kind == "idle")
        else:
            raise ValueError(f"unknown event {event}")
        trace.append({"advanced": advanced, "watermark": tested.watermark, "idle": tested.is_idle})
    return {"trace": trace}


class Written(WatermarkOutput):
    """Records what a generator emits, idleness included."""

    def __init__(self) -> None:
        self.elements: list[list[Any]] = []

    def emit_watermark(self, watermark: Watermark) -> None:
        self.elements.append(["wm", watermark.timestamp])

    def mark_idle(self) -> None:
        self.elements.append(["idle"])

    def mark_active(self) -> None:
        self.elements.append(["active"])


def generator(given: dict[str, Any]) -> dict[str, Any]:
    now = 0
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(
        Duration.of_millis(given["max_out_of_orderness_ms"])
    )
    if "idle_timeout_ms" in given:
        strategy = strategy.with_idleness(Duration.of_millis(given["idle_timeout_ms"]))
    tested = strategy.create_watermark_generator(WatermarkGeneratorContext(lambda: now))
    outputs = []
    for event in given["events"]:
        output = Written()
        if event[0] == "event":
            tested.on_event(None, event[1], output)
        elif event[0] == "periodic":
            tested.on_periodic_emit(output)
        elif event[0] == "advance":
            now += event[1]
        else:
            raise ValueError(f"unknown event {event}")
        outputs.append(output.elements)
    return {"output_per_event": outputs}


ADAPTERS = {"watermark.valve": valve, "watermark.combine": combine, "watermark.generator": generator}
