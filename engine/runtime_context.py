"""What a function's subtask is, and the state of its current key (Flink: RuntimeContext, KeyedStateStore)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from onceproof.engine.metrics import MetricGroup, MetricRegistry
from onceproof.engine.owner_ids import owner_id

if TYPE_CHECKING:
    from onceproof.engine.state.descriptors import (
        AggregatingStateDescriptor,
        ListStateDescriptor,
        MapStateDescriptor,
        ReducingStateDescriptor,
        StateDescriptor,
        ValueStateDescriptor,
    )
    from onceproof.engine.state.interfaces import (
        AggregatingState,
        ListState,
        MapState,
        ReducingState,
        ValueState,
    )
    from onceproof.engine.state.keyed import KeyedStateBackend


class KeyedStateStore(Struct, eq=False, kw_only=True):
    """Gives a function the state of the current key (Flink: KeyedStateStore).

    The methods raise TypeError if the stream is not keyed.
    """

    task_name: str
    backend: KeyedStateBackend | None = None

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState:
        """Return the ValueState of the descriptor, which reads and writes the current key's value."""
        return self._keyed_backend(state_descriptor).value_state(state_descriptor)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState:
        """Return the ListState of the descriptor, which reads and writes the current key's list."""
        return self._keyed_backend(state_descriptor).list_state(state_descriptor)

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState:
        """Return the MapState of the descriptor, which reads and writes the current key's map."""
        return self._keyed_backend(state_descriptor).map_state(state_descriptor)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState:
        """Return the ReducingState of the descriptor, which adds to the current key's reduced value.

        Raises:
            TypeError: its ReduceFunction has an ``open`` or a ``close``, which nothing would call.
        """
        state_descriptor.check_is_never_opened()
        return self._keyed_backend(state_descriptor).reducing_state(state_descriptor)

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState:
        """Return the AggregatingState of the descriptor, which adds to the current key's accumulator.

        Raises:
            TypeError: its AggregateFunction has an ``open`` or a ``close``, which nothing would call.
        """
        state_descriptor.check_is_never_opened()
        return self._keyed_backend(state_descriptor).aggregating_state(state_descriptor)

    def _keyed_backend(self, descriptor: StateDescriptor) -> KeyedStateBackend:
        if self.backend is None:
            raise TypeError(
                f"state {descriptor.name!r} of {self.task_name!r} needs a keyed stream: call key_by"
                " directly before the operator"
            )
        return self.backend


class RuntimeContext(KeyedStateStore, eq=False, kw_only=True):
    """Describes a function's subtask, and gives its keyed state (Flink: RuntimeContext); call the methods."""

    subtask: int
    parallelism: int
    max_parallelism: int
    attempt: str
    clock: Callable[[], int]
    pass_point: Callable[[str, int], None]
    job_id: str = ""
    operator_id: str = ""
    scope: str = ""
    operator_name: str = ""
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    metrics: MetricRegistry = field(default_factory=MetricRegistry)

    def get_task_name(self) -> str:
        """Return the name of the vertex, without the subtask's index."""
        return self.task_name

    def get_job_id(self) -> str:
        """Return the id of the job, the same in every attempt (Flink: JobInfo.getJobId)."""
        return self.job_id

    def get_operator_unique_id(self) -> str:
        """Return the id of the operator, which follows from its uid (Flink: StreamingRuntimeContext)."""
        return self.operator_id

    def get_owner_id(self) -> str:
        """Return what no other operator of any job has, for names in a shared target (ours)."""
        return owner_id(self.scope, self.job_id, self.operator_id)

    def get_place_id(self) -> str:
        """Return what stands for this operator and the path of the job's checkpoint folder (ours).

        It stays if that folder is deleted and made anew; "" if the job has none.
        """
        root = self.scope.partition("\0")[2]
        return owner_id(root, self.job_id, self.operator_id) if root else ""

    def get_index_of_this_subtask(self) -> int:
        """Return the index of this subtask, counted from 0."""
        return self.subtask

    def get_number_of_parallel_subtasks(self) -> int:
        """Return the parallelism of the vertex."""
        return self.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the max parallelism of the vertex: the number of its key groups."""
        return self.max_parallelism

    def get_task_name_with_subtasks(self) -> str:
        """Return the name of the vertex with index and number of the subtasks, such as ``Map (3/6)``."""
        return f"{self.task_name} ({self.subtask + 1}/{self.parallelism})"

    def get_attempt_number(self) -> int:
        """Return how many attempts of this process the subtask had before: 0 in the first one."""
        number = self.attempt.rpartition(".")[2]
        return int(number) - 1 if number.isdigit() else 0

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return the job parameter of this name as a text, or the default (see ExecutionConfig)."""
        return self.job_parameters.get(key, default_value)

    def get_metrics_group(self) -> MetricGroup:
        """Return the metrics of this subtask of the operator. The result of the job shows their values."""
        name = self.operator_name or self.task_name
        return self.metrics.group(self.operator_id, name, self.subtask, self.clock)

    def get_attempt_id(self) -> str:
        """Return ``incarnation.number`` of the attempt, unique over all restarts of the job."""
        return self.attempt

    def get_current_processing_time(self) -> int:
        """Return the wall clock in milliseconds since the epoch, read once for each event of the task."""
        return self.clock()

    def probe(self, point: str, checkpoint_id: int) -> None:
        """Report a protocol point to the observer of the job.

        The observer may raise to kill the task here.

        Args:
            point: one of ``protocol_points.POINTS``.
            checkpoint_id: the checkpoint concerned, or 0.
        """
        self.pass_point(point, checkpoint_id)
