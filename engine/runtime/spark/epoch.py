"""What a worker is told: of the attempt once, of the epoch with each task.

The rules this module lives by:

- What does not change during an attempt (graph, probe, folders) is broadcast, and unpacked once in each
  worker process. What changes with the epoch is small, and travels with the tasks.
- The graph travels as Spark's own serializer for closures writes it, or as a recipe that builds it in the
  worker: functions of a module that workers cannot import can only be had from a recipe.
- All that a subtask does follows from its epoch: which records it reads and what time it is are decided by
  the driver beforehand, so that a task which Spark runs again does the same again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace
from pyspark.serializers import CloudPickleSerializer

from onceproof.engine.graph import JobGraph
from onceproof.engine.job.channel_layout import Layout, layout_of
from onceproof.engine.job.deployment import RestorePlan
from onceproof.engine.messages import AcknowledgeCheckpoint, AttemptId, DeclineCheckpoint, TaskFailed, TaskId
from onceproof.engine.protocol_points import Probe, no_probe
from onceproof.engine.runtime.mounted_storage import MountedStorage, open_storage
from onceproof.engine.runtime.spark.stages import Stages, stages_of
from onceproof.engine.task.task import TaskSettings

Recipe: TypeAlias = Callable[[], JobGraph]
"""Makes the graph of a job, the same one in every process."""

_CLOSURES: Final = CloudPickleSerializer()


class GivenGraph(Struct, frozen=True):
    """The recipe for a graph that travels itself."""

    graph: JobGraph

    def __call__(self) -> JobGraph:
        """The graph."""
        return self.graph


class WrongRecipe(Exception):
    """A recipe gave a worker another job than the driver has. The message is one line."""


class Shipment(Struct, frozen=True):
    """What travels once for each attempt."""

    recipe: Recipe
    shape: tuple[tuple[str, int, int], ...]
    """By vertex: the id of its head, parallelism and max parallelism, as the driver has them."""
    root: str
    """The job's checkpoint folder, on a file system that driver and workers share."""
    incarnation: int
    probe: Probe
    subtask_class: Any
    mounts: Mapping[str, str] = {}
    """Of that folder: what the job has begun from lies elsewhere."""


class Packed:
    """A shipment under way: a worker that unpickles it gets a Deployment, once in its life."""

    def __init__(self, shipment: Shipment) -> None:
        self._data: bytes = _CLOSURES.dumps(shipment)

    def __reduce__(self) -> tuple[Callable[[bytes], Deployment], tuple[bytes]]:
        return unpack, (self._data,)


class Deployment(Struct, frozen=True, eq=False):
    """An attempt as a worker process keeps it."""

    graph: JobGraph
    layout: Layout
    stages: Stages
    storage: MountedStorage
    incarnation: int
    probe: Probe
    subtask_class: Any
    key_indexes: dict[tuple[int, int], dict[Any, int]]
    """By vertex and output: which subtask owns a key, as far as tasks in this process have found out."""

    def settings(self, spark_attempt: int) -> TaskSettings:
        """The settings of a task: its attempt is that of Spark's task, so that no two share a name."""
        settings = self.graph.settings
        return TaskSettings(
            AttemptId(f"{self.incarnation}.{spark_attempt}"),
            settings.buffer_records,
            self.probe,
            checkpointing=True,
            allow_pickle=settings.allow_pickled_state,
            watches_elements=self.probe is not no_probe,
            settled=True,
            state_backend=settings.state_backend,
        )


def shape_of(graph: JobGraph) -> tuple[tuple[str, int, int], ...]:
    """What must be the same of a graph in the driver and in a worker."""
    return tuple(
        [
            (vertex.operators[0].operator_id, vertex.parallelism, vertex.max_parallelism)
            for vertex in graph.vertices
        ]
    )


def unpack(packed: bytes) -> Deployment:
    """What a shipment means here.

    Raises WrongRecipe.
    """
    shipment: Shipment = _CLOSURES.loads(packed)
    graph = _fitted(shipment.recipe(), shipment.shape)
    layout = layout_of(graph)
    return Deployment(
        graph,
        layout,
        stages_of(graph, layout),
        MountedStorage(open_storage(shipment.root), shipment.mounts),
        shipment.incarnation,
        shipment.probe,
        shipment.subtask_class,
        {},
    )


def _fitted(graph: JobGraph, shape: tuple[tuple[str, int, int], ...]) -> JobGraph:
    """The graph with the driver's max parallelism, which a checkpoint may have decided."""
    made = shape_of(graph)
    if [each[:2] for each in made] != [each[:2] for each in shape]:
        raise WrongRecipe(
            f"job {graph.name!r} was built in a worker with other operators or another parallelism than"
            " in the driver: let the recipe build it from nothing but what it was made with"
        )
    if made == shape:
        return graph
    vertices = [
        replace(vertex, max_parallelism=each[2]) for vertex, each in zip(graph.vertices, shape, strict=True)
    ]
    return replace(graph, vertices=tuple(vertices))


class Epoch(Struct, frozen=True):
    """The records between two barriers: which to read, from which state, at which time."""

    checkpoint_id: int
    begin_ms: int
    """Processing time while records are taken."""
    timestamp_ms: int
    """That of the checkpoint, at least a millisecond later: processing time when all records are in."""
    quotas: Mapping[TaskId, int]
    """How many records each source subtask reads, unless its input ends before."""
    restores: Mapping[TaskId, RestorePlan]
    drains: bool = False
    """It ends all data: the job stops with its checkpoint."""


class ChannelEnd(Struct, frozen=True):
    """The last element of an epoch in a channel: whose it was, and whether he has failed."""

    attempt: AttemptId
    failed: bool


class Report(Struct, frozen=True):
    """What one subtask has come to, for the driver."""

    task: TaskId
    attempt: AttemptId
    upstreams: Mapping[TaskId, AttemptId]
    """Whose records it has read: of several attempts of an upstream subtask only one may count."""
    messages: tuple[AcknowledgeCheckpoint | DeclineCheckpoint | TaskFailed, ...]
    records_read: int
    spark_attempt: int
    """Spark's number of the task attempt: those of a job without losses follow one another."""
