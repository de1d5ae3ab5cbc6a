"""Builds the flow of a family, with the source and sinks of the harness.

Rules:

- A family takes part with the function ``jobs["bytewax"](records, io)``. It gets a stream of records
  (``FlowRecord``) and what it needs of Bytewax's operators from ``io``. So a family in ``scenarios`` need not
  import Bytewax. It returns a stream of pairs (key, row), or what a sink of ``io`` returns.
- The rows of a key go to one partition of the sink, in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeAlias

import bytewax.operators
import bytewax.operators.windowing
import msgspec
from bytewax.dataflow import Dataflow

from onceproof.harness.model.family import Family, options_of
from onceproof.harness.model.scenario import Parameter
from onceproof.harness.systems.bytewax.recovery_store import FLOW, RECORDS
from onceproof.harness.systems.bytewax.sinks import EpochSink, ShownFiles
from onceproof.harness.systems.bytewax.source import RecordSource
from onceproof.harness.systems.process.fault_board import FaultBoard
from onceproof.harness.systems.process.job_specification import Spec

Stream: TypeAlias = Any
"""A stream of Bytewax, which has no types."""

PARTS: Final = 2
"""Of a sink."""


@dataclass(frozen=True, slots=True)
class FlowSinkChoice:
    """Rows, and that they go to Bytewax's own sink of files."""

    rows: Stream


class FlowIO:
    """What a family's flow gets of Bytewax, and its sinks."""

    operators: Final[Any] = bytewax.operators
    windowing: Final[Any] = bytewax.operators.windowing

    def __init__(self, spec: Spec) -> None:
        self.parameters: Mapping[str, Parameter] = spec.parameters

    def files(self, rows: Stream) -> FlowSinkChoice:
        """Write rows with Bytewax's own sink of files, DirSink."""
        return FlowSinkChoice(rows)

    def event_clock(self, wait_ms: int) -> Any:
        """Return a clock by the timestamps of records, whose watermark is ``wait_ms`` behind the newest one.

        Bytewax lets its watermark go on with the clock of the machine. So a millisecond of a record is a
        second here: a run takes seconds, which are milliseconds of event time.
        """
        return bytewax.operators.windowing.EventClock(
            ts_getter=lambda record: moment(record.timestamp),
            wait_for_system_duration=scaled(wait_ms),
            # Nothing but a record closes a window before the end of the input.
            to_system_utc=lambda _: None,
        )

    def tumbling_windows(self, size_ms: int) -> Any:
        """Return windows of ``size_ms`` of event time, for a clock of ``event_clock``."""
        return bytewax.operators.windowing.TumblingWindower(length=scaled(size_ms), align_to=moment(0))


def scaled(milliseconds: int) -> timedelta:
    """Return a duration of event time in the clock of Bytewax."""
    return timedelta(seconds=milliseconds)


def moment(timestamp: int) -> datetime:
    """Return a timestamp of a record in the clock of Bytewax."""
    return datetime(1970, 1, 1, tzinfo=UTC) + scaled(timestamp)


def build_flow(family: Family, spec: Spec, board: FaultBoard) -> tuple[Dataflow, EpochSink | ShownFiles]:
    """Return the flow of a family, and its sink, which is to be finished after it."""
    operators = bytewax.operators
    flow = Dataflow(FLOW)
    records = operators.input(RECORDS, flow, RecordSource(spec, board))
    rows = options_of(family).jobs["bytewax"](records, FlowIO(spec))
    output = Path(spec.output)
    sink: EpochSink | ShownFiles
    if isinstance(rows, FlowSinkChoice):
        rows, sink = rows.rows, ShownFiles(output, PARTS, board)
    else:
        sink = EpochSink(output, PARTS, board)
    lines = operators.map("lines", rows, lambda pair: (pair[0], msgspec.json.encode(pair[1]).decode()))
    operators.output("sink", lines, sink)
    return flow, sink
