"""The values that the driver sends to the workers: an attempt's shipment once, an epoch with each task.

The rules this module lives by:

- The constant part of an attempt (graph, probe, folders) is broadcast, and unpacked once in each worker
  process. The part that changes with the epoch is small, and is sent with the tasks.
- The graph is pickled by Spark's serializer for closures, which takes functions of modules by their names. So
  the modules of the program travel with it. A recipe builds the graph in the worker, from modules that are
  installed there or that it finds itself.
- The epoch determines all that a subtask does: the driver decides beforehand which records it reads and what
  time it is, so a task that Spark runs again does the same again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace
from pyspark import SparkFiles, TaskContext, cloudpickle
from pyspark.serializers import CloudPickleSerializer

from onceproof.engine.errors import text_of
from onceproof.engine.graph import InvalidJob, JobGraph
from onceproof.engine.job.channel_layout import Layout, layout_of
from onceproof.engine.job.deployment import RestorePlan
from onceproof.engine.messages import AcknowledgeCheckpoint, AttemptId, DeclineCheckpoint, TaskFailed, TaskId
from onceproof.engine.metrics import Metric, MetricRegistry, MetricScope
from onceproof.engine.protocol_points import Probe, no_probe
from onceproof.engine.runtime.module_archive import NO_MODULES, ModuleArchive, import_from, modules_of_program
from onceproof.engine.runtime.monitor.job_view import SubtaskReading
from onceproof.engine.runtime.mounted_storage import MountedStorage, open_storage
from onceproof.engine.runtime.request_loop import EventLoopRequests
from onceproof.engine.runtime.spark.epoch_size import MOST_BYTES
from onceproof.engine.runtime.spark.stages import Stages, stages_of
from onceproof.engine.task.task import TaskSettings
from onceproof.engine.types.objects import classes_of_program, give_classes

Recipe: TypeAlias = Callable[[], JobGraph]
"""Builds the graph of a job, equal in every process."""

_CLOSURES: Final = CloudPickleSerializer()


class GivenGraph(Struct, frozen=True):
    """The recipe of a graph that is sent itself."""

    graph: JobGraph

    def __call__(self) -> JobGraph:
        """Return the graph."""
        return self.graph


class WrongRecipe(Exception):
    """A recipe built another job in a worker than in the driver. The message is one line."""


class Shipment(Struct, frozen=True):
    """The constant part of an attempt, sent once."""

    recipe: Recipe
    shape: tuple[tuple[str, int, int], ...]
    """The driver's head operator id, parallelism and max parallelism of each vertex."""
    root: str
    """The job's checkpoint folder, on a file system that driver and workers share."""
    incarnation: int
    probe: Probe
    subtask_class: Any
    mounts: Mapping[str, str] = {}
    """The mounts of that folder, for the starting point of the job."""
    job_id: str = ""
    """The driver's, because an unnamed job gets another id wherever its graph is built."""
    scope: str = ""
    """What tells that folder apart from all others: see `engine/owner_ids.py`."""
    measures: bool = False
    """Whether the job is monitored, and reports say what the tasks have counted."""
    classes: tuple[type, ...] = ()
    """The classes of the program itself whose objects state may hold: a worker's ``__main__`` is another."""


class Packed:
    """A pickled shipment: unpickling it in a worker makes a Deployment, once for each process."""

    def __init__(self, shipment: Shipment) -> None:
        given = isinstance(shipment.recipe, GivenGraph)
        self._modules = modules_of_program() if given else NO_MODULES
        if given:
            shipment = replace(shipment, classes=tuple(filter(_can_be_sent, classes_of_program())))
        try:
            self._data: bytes = cloudpickle.dumps(shipment)
        except Exception as error:
            raise _unsendable(shipment, error) from error

    def __reduce__(self) -> tuple[Callable[[bytes, ModuleArchive], Deployment], tuple[bytes, ModuleArchive]]:
        return unpack, (self._data, self._modules)


def _can_be_sent(kind: type) -> bool:
    """Return whether a class can be pickled: one that cannot, and that no function uses, ends no job."""
    try:
        cloudpickle.dumps(kind)
    except Exception:
        return False
    return True


def _unsendable(shipment: Shipment, error: Exception) -> Exception:
    """Return the error that names the operator whose function cannot be pickled; else ``error`` itself."""
    if not isinstance(shipment.recipe, GivenGraph):
        return error
    graph = shipment.recipe.graph
    for vertex in graph.vertices:
        for node in vertex.operators:
            try:
                cloudpickle.dumps(node)
            except Exception as found:
                return InvalidJob(
                    f"job {graph.name!r}: the function of operator {node.name!r} cannot be sent to Spark's"
                    f" workers: {type(found).__name__}: {text_of(found)}: leave what cannot be pickled out of"
                    " the function and of what it refers to, and make it in open()"
                )
    return InvalidJob(
        f"job {graph.name!r} cannot be sent to Spark's workers: {type(error).__name__}: {text_of(error)}:"
        " leave what cannot be pickled out of its functions and key selectors"
    )


class Deployment(Struct, frozen=True, eq=False):
    """An attempt in a worker process."""

    graph: JobGraph
    layout: Layout
    stages: Stages
    storage: MountedStorage
    incarnation: int
    probe: Probe
    subtask_class: Any
    key_indexes: dict[tuple[int, int], dict[Any, int]]
    """A cache of the subtask that owns a key, by vertex and output."""
    job_id: str = ""
    scope: str = ""
    measures: bool = False

    def settings(self, spark_attempt: int) -> TaskSettings:
        """Return the settings of a task; its attempt id contains Spark's task attempt id, so it is unique."""
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
            job_id=self.job_id,
            scope=self.scope,
            job_parameters=settings.job_parameters,
            source_on_change=settings.source_on_change,
            requests=EventLoopRequests,
            metrics=_metrics_of(self.graph),
        )


def _metrics_of(graph: JobGraph) -> MetricRegistry:
    """Return an empty registry in which each operator has the same name in every process."""
    metrics = MetricRegistry()
    for vertex in graph.vertices:
        for node in vertex.operators:
            metrics.name_of(node.operator_id, node.name or vertex.name)
    return metrics


def shape_of(graph: JobGraph) -> tuple[tuple[str, int, int], ...]:
    """Return the properties of a graph that must be equal in the driver and in a worker."""
    return tuple(
        [
            (vertex.operators[0].operator_id, vertex.parallelism, vertex.max_parallelism)
            for vertex in graph.vertices
        ]
    )


def unpack(packed: bytes, modules: ModuleArchive = NO_MODULES) -> Deployment:
    """Return the deployment of a pickled shipment. Raises WrongRecipe; ImportError: a module is missing."""
    if TaskContext.get() is not None:
        import_from(modules, SparkFiles.getRootDirectory())
    try:
        shipment: Shipment = _CLOSURES.loads(packed)
    except ImportError as error:
        raise ImportError(f"{error}; {modules.why_missing()}") from error
    give_classes(shipment.classes)
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
        shipment.job_id,
        shipment.scope,
        shipment.measures,
    )


def _fitted(graph: JobGraph, shape: tuple[tuple[str, int, int], ...]) -> JobGraph:
    """Return the graph with the driver's max parallelism, which may come from a checkpoint."""
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
    """The records between two barriers: how many to read, from which state, at which time."""

    checkpoint_id: int
    begin_ms: int
    """The processing time while records are processed."""
    timestamp_ms: int
    """The checkpoint's timestamp, at least 1 ms later: the processing time when all records are processed."""
    quotas: Mapping[TaskId, int]
    """The number of records that each source subtask reads, unless its input ends before."""
    restores: Mapping[TaskId, RestorePlan]
    quota_bytes: int = MOST_BYTES
    """The number of bytes after which a source subtask stops although it has not read its quota."""
    ahead_ms: int = 0
    """How far these times, of the wall clock, are ahead of the driver's steady clock."""
    times: Mapping[TaskId, bytes] = {}
    """The packed event time of each task that knew any at the end of the epoch before, in this attempt."""
    drains: bool = False
    """Whether the epoch ends all data, because the job stops with its checkpoint."""


class ChannelEnd(Struct, frozen=True):
    """The last element of an epoch in a channel: the sender's attempt, and whether it has failed."""

    attempt: AttemptId
    failed: bool


class Report(Struct, frozen=True):
    """The result of one subtask, sent to the driver."""

    task: TaskId
    attempt: AttemptId
    upstreams: Mapping[TaskId, AttemptId]
    """The attempts whose records it has read; of an upstream subtask only one attempt may count."""
    messages: tuple[AcknowledgeCheckpoint | DeclineCheckpoint | TaskFailed, ...]
    records_read: int
    time: bytes
    """The packed event time at the end of the epoch; empty where there is none."""
    spark_attempt: int
    """Spark's task attempt id; the ids of a job without lost attempts are consecutive."""
    retry_ms: int | None = None
    """After how many milliseconds to read again, where the source had nothing to read at the end."""
    metrics: Mapping[str, Metric] = {}
    """What the functions of the subtask have counted in this epoch, by full name."""
    reading: SubtaskReading | None = None
    """What the task has counted in this epoch; None: the job is not monitored, or the task was not made."""
    scopes: Mapping[str, MetricScope] = {}
    """Where those metrics belong, by full name, if the job is monitored."""

    @property
    def has_ended(self) -> bool:
        """Whether the subtask has processed all its input."""
        return any(isinstance(each, AcknowledgeCheckpoint) and each.finished for each in self.messages)
