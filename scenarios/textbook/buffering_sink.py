"""The buffering sink: it collects clicks and writes ten at a time; what waits is operator state.

The settings are those of the textbook: a checkpoint every ten seconds, at least 500 ms between two, a minute
for each, one at a time, kept when the job is cancelled, with barriers that overtake records. The option
``execution.checkpointing.dir`` names a folder for the checkpoints.

Corrected: the textbook writes when the buffer's length ``==`` the threshold, here it is ``>=``. A restore may
give a subtask more elements than the threshold, as those of two subtasks come to one. Then the buffer is
longer than the threshold, and with each element it gets longer still: it is never written again.

The lesson, ``==``, is a family that is expected to fail::

    onceproof run scenarios/textbook/buffering_sink.py:lesson --scenarios 50
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

from onceproof.engine import (
    CheckpointedFunction,
    CheckpointingMode,
    Configuration,
    ExternalizedCheckpointRetention,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    ListStateDescriptor,
    SinkFunction,
    StreamExecutionEnvironment,
    Types,
)
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios import buffered_sink
from onceproof.scenarios._sink_around import SinkAround
from onceproof.scenarios.textbook.click_source import CLICK, ClickSource

if TYPE_CHECKING:
    from onceproof.engine import DataStream
    from onceproof.engine.types import TypeInformation

THRESHOLD = 10
SECOND_MS = 1000


def print_together(values: Sequence[Any]) -> None:
    """Print values that leave the buffer together."""
    for each in values:
        print(each)
    print("==========")


class BufferingSink(SinkFunction, CheckpointedFunction):
    """Collects values and writes them when there are enough.

    Args:
        threshold: how many values are written together.
        write: takes the values that are written together.
        element_type: the type of a value.
    """

    def __init__(
        self,
        threshold: int,
        write: Callable[[Sequence[Any]], None] = print_together,
        element_type: TypeInformation = CLICK,
    ) -> None:
        self._threshold = threshold
        self._write = write
        self._element_type = element_type
        self._buffered: list[Any] = []

    @property
    def waiting(self) -> list[Any]:
        """The values that are not written yet."""
        return self._buffered

    def is_full(self, length: int) -> bool:
        """Return whether a buffer of ``length`` values is written."""
        return length >= self._threshold

    def invoke(self, value: Any, context: Any) -> None:
        self._buffered.append(value)
        if self.is_full(len(self._buffered)):
            self._write(self._buffered)
            self._buffered.clear()

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._state.update(self._buffered)

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Take the values that waited when the checkpoint was taken."""
        descriptor = ListStateDescriptor("buffered-elements", self._element_type)
        self._state = context.get_operator_state_store().get_list_state(descriptor)
        if context.is_restored():
            self._buffered.extend(self._state.get())


class ComparingWithEqual(BufferingSink):
    """The textbook's comparison: a buffer that is longer than the threshold is never written."""

    def is_full(self, length: int) -> bool:
        return length == self._threshold


def build(clicks: DataStream) -> None:
    """End a stream of clicks in the sink."""
    clicks.add_sink(BufferingSink(THRESHOLD)).name("sink").uid("sink")


def environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
    """Return an environment with the textbook's settings."""
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    env.enable_checkpointing(10 * SECOND_MS, CheckpointingMode.EXACTLY_ONCE)
    checkpoints = env.get_checkpoint_config()
    checkpoints.set_min_pause_between_checkpoints(500)
    checkpoints.set_checkpoint_timeout(60 * SECOND_MS)
    checkpoints.set_max_concurrent_checkpoints(1)
    checkpoints.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
    checkpoints.enable_unaligned_checkpoints()
    return env


def main(source: ClickSource | None = None, configuration: Configuration | None = None) -> None:
    """Print clicks without end, ten at a time."""
    env = environment(configuration)
    build(env.from_source(source or ClickSource(), None, "clicks", CLICK).uid("clicks"))
    env.execute("buffering sink")


# On trial.


class IntoTable(SinkAround):
    """Gives numbers to a buffering sink, whose buffers go to the sink of the harness.

    Args:
        sink: the sink of the harness.
        kind: the buffering sink.
    """

    def __init__(self, sink: Any, kind: type[BufferingSink]) -> None:
        super().__init__(sink)
        self._buffering = kind(THRESHOLD, self._write_rows, Types.LONG())

    def _write_rows(self, values: Sequence[int]) -> None:
        for value in values:
            self._sink.invoke((value,), None)

    def invoke(self, value: int, context: Any) -> None:
        self._buffering.invoke(value, context)

    def finish(self) -> None:
        """Write what waits, unless no number of further values would ever write it."""
        waiting = self._buffering.waiting
        if any(self._buffering.is_full(len(waiting) + more) for more in range(1, THRESHOLD + 1)):
            self._write_rows(waiting)
            waiting.clear()
        super().finish()

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self._buffering.initialize_state(context)
        super().initialize_state(context)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._buffering.snapshot_state(context)
        super().snapshot_state(context)


@dataclass(frozen=True)
class FullBuffers:
    """The family of one comparison; its rule is that of ``buffered_sink``: each number is written once.

    Args:
        name: the name of the family.
        kind: the buffering sink.
    """

    name: str
    kind: type[BufferingSink]
    generator_version: ClassVar[int] = 1
    options: ClassVar[FamilyOptions] = buffered_sink.options
    tasks: ClassVar[Mapping[str, Role]] = {"numbers": "source", "table": "sink"}
    record_schema: ClassVar[str] = buffered_sink.record_schema
    row_schema: ClassVar[str] = buffered_sink.row_schema
    oracle_sql: ClassVar[str] = buffered_sink.oracle_sql

    def generate(self, random: Random) -> Workload:
        """Draw enough numbers to fill some buffers of each subtask before and after a rescale."""
        chance = Chance(random)
        splits = chance.integer(1, 3)
        records = {
            f"numbers-{split}": tuple((place, place) for place in range(chance.integer(30, 120)))
            for split in range(splits)
        }
        return Workload(records, {"splits": splits})

    def job(self, env: StreamExecutionEnvironment, io: JobIO) -> None:
        """Build numbers -> table."""
        numbers = env.from_source(io.source("numbers"), None, "numbers", Types.LONG()).uid("numbers")
        numbers = numbers.set_parallelism(io.source_parallelism).rebalance()
        table = numbers.add_sink(IntoTable(io.sink("table"), self.kind)).name("table").uid("table")
        table.set_parallelism(io.sink_parallelism)

    def expected(self, records: Records, declared: Declared) -> Rows:
        """Return every number once; before the end, fewer than a buffer of each subtask may be held back."""
        return buffered_sink.expected(records, declared)


corrected = FullBuffers("corrected_comparison_with_greater_or_equal", BufferingSink)
lesson = FullBuffers("lesson_comparison_with_equal", ComparingWithEqual)

if __name__ == "__main__":
    main()
