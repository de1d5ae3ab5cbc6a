"""The buffering sink: it collects clicks and writes ten at a time; what waits is operator state.

The settings are those of the textbook: a checkpoint every ten seconds, at least 500 ms between two, a minute
for each, one at a time, kept when the job is cancelled, with barriers that overtake records. The option
``execution.checkpointing.dir`` names a folder for the checkpoints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
)
from onceproof.scenarios.textbook.click_source import CLICK, ClickSource

if TYPE_CHECKING:
    from onceproof.engine import DataStream

THRESHOLD = 10
SECOND_MS = 1000


class BufferingSink(SinkFunction, CheckpointedFunction):
    """Collects values and prints them when there are enough.

    Args:
        threshold: how many values are written together.
    """

    def __init__(self, threshold: int) -> None:
        self._threshold = threshold
        self._buffered: list[Any] = []

    def invoke(self, value: Any, context: Any) -> None:
        self._buffered.append(value)
        if len(self._buffered) >= self._threshold:
            for each in self._buffered:
                print(each)
            print("==========")
            self._buffered.clear()

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._state.update(self._buffered)

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Take the clicks that waited when the checkpoint was taken."""
        descriptor = ListStateDescriptor("buffered-elements", CLICK)
        self._state = context.get_operator_state_store().get_list_state(descriptor)
        if context.is_restored():
            self._buffered.extend(self._state.get())


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


if __name__ == "__main__":
    main()
