"""Where a job begins: the environment (PyFlink: StreamExecutionEnvironment).

The rules this module lives by:

- The environment collects nodes in the order in which they are made and translates them when asked; it holds
  no thread, file or process. What runs a job is picked inside ``execute``, the one place where this layer
  looks up to a runtime.
- As in Flink, executing forgets the nodes made so far; a stream that is used again brings its own back.
- The configuration is read when the graph is built, so it may be changed until then; set_parallelism and its
  like win over it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from onceproof.engine.api.checkpoint_config import CheckpointConfig, CheckpointingMode
from onceproof.engine.api.datastream import DataStream, Upstreams
from onceproof.engine.api.execution_config import ExecutionConfig
from onceproof.engine.configuration import (
    AUTO_WATERMARK_INTERVAL,
    CHECKPOINT_DIRECTORY,
    CHECKPOINT_INTERVAL,
    CHECKPOINT_MODE,
    DEFAULT_PARALLELISM,
    EXECUTION_TARGET,
    JOB_NAME,
    LOCAL_TARGET,
    MAX_PARALLELISM,
    OPERATOR_CHAINING,
    SPARK_MASTER,
    SPARK_TARGET,
    Configuration,
    job_settings,
)
from onceproof.engine.connectors.collect import CollectedRows, CollectSink
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.connectors.source import Source
from onceproof.engine.graph import (
    InvalidJob,
    JobGraph,
    StreamNode,
    Upstream,
    build_job_graph,
    check_max_parallelism,
    check_parallelism,
)
from onceproof.engine.operators.event_time import TimestampedSourceOperator
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.watermarks.strategy import WatermarkStrategy

if TYPE_CHECKING:
    from onceproof.engine.api.job_client import JobClient
    from onceproof.engine.configuration import CheckpointSettings
    from onceproof.engine.operators.base import Operator
    from onceproof.engine.types import TypeInformation

DEFAULT_JOB_NAME = "Streaming Job"


Announce: TypeAlias = Callable[[JobGraph], None]

_submissions: Final[list[tuple[Configuration, Announce]]] = []
"""What the command line says of the program that it runs, if it runs one."""


@contextmanager
def submitted(configuration: Configuration, announce: Announce) -> Iterator[None]:
    """Run a program as Flink's command line does: its environments get these options, over their own.

    ``announce`` is called with each job that is about to be run.
    """
    _submissions.append((configuration, announce))
    try:
        yield
    finally:
        _submissions.pop()


class StreamExecutionEnvironment:
    """Where a job is described and executed."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._parallelism: int | None = None
        self._max_parallelism: int | None = None
        self._nodes: list[StreamNode] = []
        self._next_number = 0

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """A new environment, with its own copy of the configuration."""
        environment = StreamExecutionEnvironment(Configuration())
        if configuration is not None:
            environment.configure(configuration)
        for given, _ in _submissions:
            environment.configure(given)
        return environment

    # ---- settings

    def configure(self, configuration: Configuration) -> None:
        """Take over every option that is set in ``configuration``."""
        self._configuration.add_all(configuration)

    def get_configuration(self) -> Configuration:
        """The configuration of this environment; changes count until a graph is built."""
        return self._configuration

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """Set the number of subtasks of every operator that says nothing else."""
        self._parallelism = check_parallelism(parallelism, "the environment")
        return self

    def get_parallelism(self) -> int:
        """Number of subtasks of every operator that says nothing else."""
        if self._parallelism is not None:
            return self._parallelism
        return self._configuration.get(DEFAULT_PARALLELISM)

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """Set the number of key groups of every operator that says nothing else."""
        self._max_parallelism = check_max_parallelism(max_parallelism, "the environment")
        return self

    def get_max_parallelism(self) -> int:
        """Number of key groups of every operator that says nothing else; -1: from its parallelism."""
        if self._max_parallelism is not None:
            return self._max_parallelism
        return self._configuration.get(MAX_PARALLELISM)

    def disable_operator_chaining(self) -> StreamExecutionEnvironment:
        """Give every operator a task of its own."""
        self._configuration.set(OPERATOR_CHAINING, False)
        return self

    def is_chaining_enabled(self) -> bool:
        """Whether operators that can share a task do."""
        return self._configuration.get(OPERATOR_CHAINING)

    def enable_checkpointing(
        self, interval: int, mode: CheckpointingMode | None = None
    ) -> StreamExecutionEnvironment:
        """Take a checkpoint every ``interval`` milliseconds."""
        self._configuration.set(CHECKPOINT_INTERVAL, interval)
        if mode is not None:
            self._configuration.set(CHECKPOINT_MODE, mode.value)
        return self

    def get_config(self) -> ExecutionConfig:
        """The settings of the execution, to read and to change."""
        return ExecutionConfig(self._configuration)

    def get_checkpoint_config(self) -> CheckpointConfig:
        """The checkpoint settings, to read and to change."""
        return CheckpointConfig(self._configuration)

    def get_checkpoint_interval(self) -> int:
        """Milliseconds between two checkpoints, or -1."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """The mode of checkpoints."""
        return self.get_checkpoint_config().get_checkpointing_mode()

    # ---- sources

    def from_collection(
        self, collection: Iterable[Any], type_info: TypeInformation | None = None
    ) -> DataStream:
        """A stream of the values in memory, read by one subtask; for tests and examples."""
        values = list(collection)
        create = partial(SourceOperator, CollectionSource.of_values(values))
        stream = self._add_source(create, "Collection Source", type_info)
        return stream.force_non_parallel()

    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy | None = None,
        source_name: str = "source",
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """A stream of what a source reads.

        Without a strategy (ours: None) records keep the timestamps that the source gives them, and event time
        advances only at the end of the data.
        """
        if not isinstance(source, Source):
            raise InvalidJob(f"from_source takes a Source, not {source!r}")
        if watermark_strategy is None:
            return self._add_source(partial(SourceOperator, source), source_name, type_info)
        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise InvalidJob(
                f"from_source takes a WatermarkStrategy, not {watermark_strategy!r}:"
                " such as WatermarkStrategy.for_monotonous_timestamps()"
            )
        create = partial(TimestampedSourceOperator, source, watermark_strategy)
        return self._add_source(create, source_name, type_info)

    def _add_source(
        self, create: Callable[[], Operator], name: str, type_info: TypeInformation | None
    ) -> DataStream:
        return DataStream(self, (Upstream(self._add_node(name, create, ())),), type_info)

    def _add_node(self, name: str, create: Callable[[], Operator], upstreams: Upstreams) -> StreamNode:
        node = StreamNode(self._next_number, name, create, upstreams)
        self._next_number += 1
        self._nodes.append(node)
        return node

    # ---- execution

    def get_job_graph(
        self, job_name: str | None = None, settings: CheckpointSettings | None = None
    ) -> JobGraph:
        """Translate what was described so far; ``settings`` take the place of those in the configuration."""
        configuration = self._configuration
        max_parallelism = self.get_max_parallelism()
        return build_job_graph(
            self._job_name(job_name),
            self._nodes,
            job_settings(configuration) if settings is None else settings,
            parallelism=self.get_parallelism(),
            max_parallelism=None if max_parallelism == -1 else max_parallelism,
            chaining=configuration.get(OPERATOR_CHAINING),
            auto_watermark_interval_ms=configuration.get(AUTO_WATERMARK_INTERVAL),
        )

    def execute(self, job_name: str | None = None) -> Any:
        """Run the job until it has ended, where ``execution.target`` says, and forget its description."""
        graph = self._take_job_graph(job_name)
        if self._configuration.get(EXECUTION_TARGET) == SPARK_TARGET:
            from onceproof.engine.runtime.spark.target import execute_on_target

            return execute_on_target(graph, self._configuration.get(SPARK_MASTER))
        from onceproof.engine.runtime.local import execute

        return execute(graph)

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Begin to run the job, where ``execution.target`` says, and forget its description.

        It runs in a thread of this process, which does not end before the job.
        """
        graph = self._take_job_graph(job_name)
        if self._configuration.get(EXECUTION_TARGET) == SPARK_TARGET:
            from onceproof.engine.runtime.spark.target import start_on_target

            return start_on_target(graph, self._configuration.get(SPARK_MASTER))
        from onceproof.engine.runtime.local import start

        return start(graph)

    def _take_job_graph(self, job_name: str | None) -> JobGraph:
        graph = self.get_job_graph(job_name)
        self._nodes = []
        for _, announce in _submissions:
            announce(graph)
        return graph

    def close(self) -> None:
        """Nothing is held open between executions."""

    def _execute_and_collect(self, stream: DataStream, job_name: str | None) -> list[Any]:
        if self._configuration.get(EXECUTION_TARGET) == SPARK_TARGET:
            raise InvalidJob(
                "execute_and_collect hands out rows in this process, and on Spark sinks run in others:"
                f" write to files, or set {EXECUTION_TARGET.key} to {LOCAL_TARGET}"
            )
        rows = CollectedRows()
        sink = CollectSink(rows, transactional=job_settings(self._configuration).enabled)
        stream.sink_to(sink).name("Data stream collect sink")
        directory = self._configuration.get(CHECKPOINT_DIRECTORY)
        # The rows live as long as this process does, and so must the checkpoints that count on them.
        self._configuration.remove_config(CHECKPOINT_DIRECTORY.key)
        try:
            self.execute(job_name)
        finally:
            if directory is not None:
                self._configuration.set(CHECKPOINT_DIRECTORY, directory)
        return rows.visible

    def _job_name(self, job_name: str | None) -> str:
        return job_name or self._configuration.get(JOB_NAME) or DEFAULT_JOB_NAME
