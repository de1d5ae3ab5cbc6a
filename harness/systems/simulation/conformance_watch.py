"""Replays the machines of a simulated run through their specifications (`harness/specifications/`), live.

Rules:

- Each machine is watched where it answers: the job master after each event, functions at each call of their
  operator, barrier handlers, valves, windows and idle streams in the place of those that a task makes itself.
  The run does not change, whatever is found.
- The first answer that is not as specified is the deviation of the run. After it nothing more is judged.
- The seed of a scenario decides whether its run is watched (``is_replayed``): not all are, for their cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET

from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.configuration.alignment import CheckpointOptions
from onceproof.engine.graph import JobGraph, JobVertex, PartitionerKind
from onceproof.engine.messages import TaskId
from onceproof.engine.operators.base import Operator
from onceproof.engine.task.barriers.choice import barrier_handler
from onceproof.engine.task.barriers.events import BarrierHandler
from onceproof.engine.task.events import Restore
from onceproof.engine.task.task import Task
from onceproof.engine.watermarks.valve import TimeElement, WatermarkValve
from onceproof.harness.model.job_settings import DELAY_GROWTH
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.model.seeds import is_replayed
from onceproof.harness.specifications import Deviation
from onceproof.harness.specifications.barriers import BarrierRules
from onceproof.harness.specifications.job import JobRules, JobSpecification
from onceproof.harness.specifications.restart_waits import (
    FOREVER,
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestarts,
    Strategy,
)
from onceproof.harness.specifications.restored_shares import restored_mismatch
from onceproof.harness.specifications.valves import ValveSpecification
from onceproof.harness.systems.simulation.agenda import Clock
from onceproof.harness.systems.simulation.barrier_watch import WATCHED, BarrierWatch
from onceproof.harness.systems.simulation.idleness_watch import watched_for_idleness
from onceproof.harness.systems.simulation.lifecycle_watch import LifecycleWatch
from onceproof.harness.systems.simulation.window_watch import WindowWatch

_OVERTAKEN: Final = frozenset(
    (
        PartitionerKind.HASH,
        PartitionerKind.REBALANCE,
        PartitionerKind.SHUFFLE,
        PartitionerKind.GLOBAL,
        PartitionerKind.CUSTOM,
    )
)
"""The edges on which records may be overtaken, in a job that is not refused for its own partitioners."""
MOST_CHARACTERS: Final = 600
JITTER: Final = 0.1
"""The engine's default of ``restart-strategy.exponential-delay.jitter-factor``, as Flink documents it."""


def _restart_waits(scenario: Scenario) -> Strategy:
    asked, delay_ms = scenario.restarts, scenario.restart_delay_ms
    if asked is UNSET:
        return FixedDelay(FOREVER, delay_ms)
    match asked.strategy:
        case "none":
            return NoRestarts()
        case "fixed_delay":
            return FixedDelay(asked.most, delay_ms)
        case "failure_rate":
            return FailureRate(asked.most, asked.window_ms, delay_ms)
        case "exponential_delay":
            longest_ms = asked.longest_delay_ms(delay_ms)
            return ExponentialDelay(delay_ms, longest_ms, DELAY_GROWTH, asked.window_ms, JITTER, asked.most)


class ConformanceWatch:
    """Watches the machines of one run."""

    def __init__(self, scenario: Scenario, clock: Clock) -> None:
        self._scenario = scenario
        self._clock = clock
        self._is_on = is_replayed(scenario.seed)
        self._barrier_rules = BarrierRules("aligned")
        self.deviation: Deviation | None = None
        """The first answer that is not as specified, if there is one."""
        self._job: JobSpecification | None = None
        self._handler: type | None = None
        """What the tasks of the attempt have for barriers, once it is known."""
        self._graph: JobGraph | None = None
        self._restored: CheckpointMetadata | None = None
        self._may_overtake: dict[int, bool] = {}
        """By vertex, whether barriers may overtake on the way to it."""
        self._barriers_of: dict[TaskId, BarrierWatch] = {}
        self._windows = WindowWatch()
        self._lifecycles = LifecycleWatch()

    # The job.

    def process_started(self, graph: JobGraph, found: Sequence[CheckpointMetadata]) -> None:
        """Begin to watch the job master of a process that has found these checkpoints."""
        if not self._is_on:
            return
        scenario, settings = self._scenario, graph.settings
        mode = scenario.checkpoint_mode
        rules = JobRules(
            _restart_waits(scenario),
            scenario.checkpoint_timeout_ms,
            mode.max_concurrent,
            mode.min_pause_ms,
            scenario.tolerable_failures,
            scenario.retained,
            mode.barriers != "unaligned",
            graph.is_batch,
            settings.max_equal_errors,
        )
        self._job = JobSpecification(rules, found)

    def master_answered(self, event: Any, effects: Sequence[Any]) -> None:
        """Judge what the job master has answered."""
        if self._job is None or self.deviation is not None:
            return
        mismatch = self._job.judge(event, self._clock.now, effects)
        if mismatch is not None:
            self.deviate("job master", event, *mismatch)

    def attempt_started(self, restored: CheckpointMetadata | None) -> None:
        """Note from which checkpoint the next attempt begins."""
        self._restored = restored

    def tasks_start(self, begin_with: Mapping[TaskId, Restore]) -> None:
        """Judge what the tasks of an attempt restore."""
        metadata, graph = self._restored, self._graph
        if metadata is None or graph is None or self.deviation is not None:
            return
        stored = {operator.operator_id: operator for operator in metadata.operators}
        for vertex in graph.vertices:
            restores = [begin_with[TaskId(vertex.index, each)] for each in range(vertex.parallelism)]
            for node in vertex.operators:
                operator = stored.get(node.operator_id)
                found = [each.operators.get(node.operator_id) for each in restores]
                if operator is None or None in found:
                    continue
                mismatch = restored_mismatch(operator, vertex.max_parallelism, found)
                if mismatch is not None:
                    event = f"the restore of checkpoint {metadata.checkpoint_id}"
                    self.deviate(f"redistribution of {node.name}", event, *mismatch)

    # Tasks.

    def of_attempt(self, graph: JobGraph) -> ConformanceWatch | None:
        """Return this, for the tasks of an attempt with that graph; None for a run that is not watched."""
        if not self._is_on:
            return None
        self._may_overtake = {
            vertex.index: all(edge.partitioner.kind in _OVERTAKEN for edge in vertex.inputs)
            for vertex in graph.vertices
        }
        self._graph = graph
        mode = self._scenario.checkpoint_mode
        # Tasks of a BATCH job sort first, and decline meanwhile: nothing needs to overtake.
        is_aligned = graph.is_batch and mode.barriers == "unaligned"
        self._barrier_rules = (
            BarrierRules("aligned") if is_aligned else BarrierRules(mode.barriers, mode.aligned_timeout_ms)
        )
        self.forget()
        self._handler = None
        return self

    def barriers(
        self, task: TaskId, vertex: JobVertex, options: CheckpointOptions, channels: int
    ) -> BarrierHandler:
        """Return the handler that the engine chooses for a task, watched."""
        if self._handler is None:
            self._handler = type(barrier_handler(options, channels))
        watched = WATCHED.get(self._handler)
        if watched is None:
            return barrier_handler(options, channels)
        handler = watched(channels)
        watch = BarrierWatch(self, task, vertex, channels, self._barrier_rules, self._may_overtake)
        handler.watch = self._barriers_of[task] = watch
        return handler

    def operator(self, operator: Operator) -> Operator:
        """Return an operator, watched if it has functions, windows, or streams that may turn idle."""
        watched = self._windows.watched(self, watched_for_idleness(self, operator))
        return self._lifecycles.watched(self, watched)

    @property
    def has_deviated(self) -> bool:
        """Whether nothing more is judged."""
        return self.deviation is not None

    def valve(self, name: str, channels: int) -> WatermarkValve:
        """Return a valve, watched."""
        return WatchedValve(self, name, channels)

    def attach(self, task: Task) -> None:
        """Note a task that begins; timers are started by those that run."""
        watch = self._barriers_of.get(task.id)
        if watch is not None:
            watch.task = task

    def snapshot_taken(self, task: Task, checkpoint_id: int) -> None:
        """Judge where a task that has taken a snapshot has put the barrier."""
        watch = self._barriers_of.get(task.id)
        if watch is not None and watch.taken is not None and self.deviation is None:
            watch.snapshot_taken(task, checkpoint_id)

    def declined(self, task: Task, checkpoint_id: int) -> None:
        """Judge a task that declines a checkpoint."""
        watch = self._barriers_of.get(task.id)
        if watch is not None and self.deviation is None:
            watch.declined(task, checkpoint_id)

    def timer_started(self, task: Task, due_ms: int) -> None:
        """Note that a task is to be woken."""
        watch = self._barriers_of.get(task.id)
        if watch is not None:
            watch.timers.append(due_ms)

    def timer_due(self, task: Task, due_ms: int) -> None:
        """Note that a task is woken."""
        watch = self._barriers_of.get(task.id)
        if watch is not None and due_ms in watch.timers:
            watch.timers.remove(due_ms)

    def forget(self) -> None:
        """Let go of all tasks, which hold what holds them."""
        for watch in self._barriers_of.values():
            watch.task = None
        self._barriers_of.clear()
        self._windows.let_go()
        self._lifecycles.let_go()

    @property
    def step(self) -> int:
        """The number of the current step."""
        return self._clock.step

    def deviate(self, machine: str, event: Any, expected: Any, got: Any) -> None:
        """Note the first deviation."""
        if self.deviation is None:
            shown = [text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…" for text in (
                machine, str(event), str(expected), str(got),
            )]  # fmt: skip
            self.deviation = Deviation(self._clock.step, shown[0], shown[1], shown[2], shown[3])


class WatchedValve(WatermarkValve):
    """A valve that is watched."""

    __slots__ = ("_is_asked", "_name", "_specification", "_watch")

    def __init__(self, watch: ConformanceWatch, name: str, channels: int) -> None:
        super().__init__(channels)
        self._watch = watch
        self._name = name
        self._specification = ValveSpecification(channels)
        self._is_asked = False
        """Whether an event asks its own parts."""

    def watermark(self, channel: int, timestamp: int) -> Sequence[TimeElement]:
        """Answer as the engine does."""
        got = super().watermark(channel, timestamp)
        if not self._is_asked:
            expected = self._specification.watermark(channel, timestamp)
            if got != expected:
                self._judge(f"watermark {timestamp} of channel {channel}", expected, got)
        return got

    def status(self, channel: int, is_idle: bool) -> Sequence[TimeElement]:
        """Answer as the engine does."""
        got = super().status(channel, is_idle)
        if not self._is_asked:
            expected = self._specification.status(channel, is_idle)
            if got != expected:
                self._judge(f"channel {channel} is {'idle' if is_idle else 'active'}", expected, got)
        return got

    def ended(self, channel: int, timestamp: int) -> Sequence[TimeElement]:
        """Answer as the engine does."""
        self._is_asked = True
        got = super().ended(channel, timestamp)
        self._is_asked = False
        expected = self._specification.ended(channel, timestamp)
        if got != expected:
            self._judge(f"the end of channel {channel}", expected, got)
        return got

    def _judge(self, event: str, expected: Sequence[TimeElement], got: Sequence[TimeElement]) -> None:
        if list(got) != list(expected):
            self._watch.deviate(f"valve of {self._name}", event, list(expected), list(got))
