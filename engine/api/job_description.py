"""What an environment keeps of a job that is being described: its options and its nodes.

Rules:

- Nodes stand in the order in which the program made them. A description holds no thread, file or process.
- Executing a job forgets its nodes; a stream that is used again brings its own back, as in Flink.
- An operator keeps the parallelism, max parallelism, buffer timeout and chaining that were in force when it
  was made, by `set_parallelism` and its like or by the configuration. Those of a command line win over them.
- The rest of the configuration is read when the job graph is built, so it may change until then.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Final, Self

from msgspec.structs import replace

from onceproof.engine.api.batch_execution import RuntimeExecutionMode, in_runtime_mode
from onceproof.engine.api.checkpoint_config import CheckpointConfig, CheckpointingMode
from onceproof.engine.api.execution_config import ExecutionConfig
from onceproof.engine.api.job_client import JobClient
from onceproof.engine.api.operator_settings import Upstreams
from onceproof.engine.api.restart_strategy_options import RestartStrategyConfiguration
from onceproof.engine.api.slot_sharing import SlotSharingGroup, group_name
from onceproof.engine.api.state_backends import StateBackend
from onceproof.engine.api.submission import submissions
from onceproof.engine.api.time_characteristic import TimeCharacteristic
from onceproof.engine.configuration import (
    AUTO_WATERMARK_INTERVAL,
    BUFFER_TIMEOUT,
    BUFFER_TIMEOUT_ENABLED,
    CHECKPOINT_INCREMENTAL,
    CHECKPOINT_INTERVAL,
    CHECKPOINT_MODE,
    CLUSTER_ID,
    DEFAULT_PARALLELISM,
    HASHMAP,
    JOB_NAME,
    MAX_PARALLELISM,
    OPERATOR_CHAINING,
    ROCKSDB,
    RUNTIME_MODE,
    SAVEPOINT_DIRECTORY,
    SORTED_INPUTS_MEMORY,
    STATE_BACKEND,
    Configuration,
    job_settings,
)
from onceproof.engine.configuration.restart_options import RESTART_STRATEGY
from onceproof.engine.configuration.runtimes import options_without_effect
from onceproof.engine.graph import (
    AUTO_WATERMARK_INTERVAL_MS,
    JOB_ID_BYTES,
    InForce,
    InvalidJob,
    JobGraph,
    StreamNode,
    build_job_graph,
    check_buffer_timeout,
    check_max_parallelism,
    check_parallelism,
    with_upstreams,
)
from onceproof.engine.state.backend_factory import backend_factory

if TYPE_CHECKING:
    from onceproof.engine.configuration import CheckpointSettings
    from onceproof.engine.operators.base import Operator
    from onceproof.engine.types import TypeInformation

_logger = logging.getLogger(__name__)

DEFAULT_JOB_NAME: Final = "Streaming Job"
CHANGELOG: Final = "state.changelog.enabled"


def _deprecated(method: str, key: str) -> None:
    warnings.warn(f"{method} is deprecated: set the option {key!r}", DeprecationWarning, stacklevel=3)


def _without_effect(method: str, instead: str) -> None:
    warnings.warn(f"{method} is deprecated: {instead}", DeprecationWarning, stacklevel=3)


def _without(in_force: InForce, overrides: Configuration) -> InForce:
    """Return what was in force for an operator without what a command line overrides."""
    return InForce(
        None if overrides.is_set(DEFAULT_PARALLELISM) else in_force.parallelism,
        None if overrides.is_set(MAX_PARALLELISM) else in_force.max_parallelism,
        None
        if overrides.is_set(BUFFER_TIMEOUT) or overrides.is_set(BUFFER_TIMEOUT_ENABLED)
        else in_force.buffer_timeout_ms,
        None if overrides.is_set(OPERATOR_CHAINING) else in_force.chaining,
    )


class JobDescription:
    """The options and the nodes of a job that is not yet executed."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._parallelism: int | None = None
        self._max_parallelism: int | None = None
        self._time_characteristic = TimeCharacteristic.ProcessingTime
        self._nodes: list[StreamNode] = []
        self._next_number = 0
        self._in_force = InForce()
        self._said: tuple[int | None, int | None, int] | None = None
        """What was set when this was worked out."""

    def configure(self, configuration: Configuration) -> None:
        """Take over every option that is set in ``configuration``."""
        self._configuration.add_all(configuration)

    def get_configuration(self) -> Configuration:
        """Return the configuration of this environment. Changes count until a job graph is built."""
        return self._configuration

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the number of subtasks of operators that are made from now on and set none of their own."""
        self._parallelism = check_parallelism(parallelism, "the environment")
        return self

    def get_parallelism(self) -> int:
        """Return the number of subtasks of an operator that has no parallelism of its own."""
        if self._parallelism is not None:
            return self._parallelism
        return self._configuration.get(DEFAULT_PARALLELISM)

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups of operators that are made from now on and set none of their own."""
        self._max_parallelism = check_max_parallelism(max_parallelism, "the environment")
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups of an operator without its own; -1: from its parallelism."""
        if self._max_parallelism is not None:
            return self._max_parallelism
        return self._configuration.get(MAX_PARALLELISM)

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> Self:
        """Say when results come: after each record, or one for each key at the end of bounded input."""
        if not isinstance(execution_mode, RuntimeExecutionMode):
            raise InvalidJob(f"set_runtime_mode takes a RuntimeExecutionMode, not {execution_mode!r}")
        self._configuration.set(RUNTIME_MODE, execution_mode.value)
        return self

    def set_restart_strategy(self, restart_strategy_configuration: RestartStrategyConfiguration) -> Self:
        """Set the options of a restart strategy (Flink 1; deprecated: set `restart-strategy.type`)."""
        _deprecated("set_restart_strategy", RESTART_STRATEGY.key)
        restart_strategy_configuration.set_in(self._configuration)
        return self

    def set_state_backend(self, state_backend: StateBackend) -> Self:
        """Set the options of a state backend (Flink 1; deprecated: set `state.backend.type`)."""
        _deprecated("set_state_backend", STATE_BACKEND.key)
        state_backend.set_in(self._configuration)
        return self

    def set_stream_time_characteristic(self, characteristic: TimeCharacteristic) -> Self:
        """Say which time ``time_window`` means (Flink 1; deprecated: name it in the window assigner).

        As in Flink, ProcessingTime also turns periodic watermarks off, and the others turn them on.
        """
        warnings.warn(
            "set_stream_time_characteristic is deprecated: call window with TumblingEventTimeWindows"
            " or TumblingProcessingTimeWindows",
            DeprecationWarning,
            stacklevel=2,
        )
        if not isinstance(characteristic, TimeCharacteristic):
            raise InvalidJob(
                f"set_stream_time_characteristic takes a TimeCharacteristic, not {characteristic!r}"
            )
        self._time_characteristic = characteristic
        is_clock = characteristic is TimeCharacteristic.ProcessingTime
        self._configuration.set(AUTO_WATERMARK_INTERVAL, 0 if is_clock else AUTO_WATERMARK_INTERVAL_MS)
        return self

    def get_stream_time_characteristic(self) -> TimeCharacteristic:
        """Return which time ``time_window`` means: ProcessingTime, unless another one was set."""
        return self._time_characteristic

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> Self:
        """Take note of a slot sharing group. It has no effect: subtasks have no slots."""
        group_name(slot_sharing_group, "the environment")
        return self

    def disable_operator_chaining(self) -> Self:
        """Give every operator that is made from now on a task of its own."""
        self._configuration.set(OPERATOR_CHAINING, False)
        return self

    def add_jars(self, *jars_path: str) -> None:
        """Do nothing but log a line: connectors are in Python here, and no Java runs the job."""
        _logger.info("jars are not needed here: %s", ", ".join(jars_path))

    def add_classpaths(self, *classpaths: str) -> None:
        """Do nothing but log a line, as ``add_jars`` does."""
        _logger.info("classpaths are not needed here: %s", ", ".join(classpaths))

    def add_python_file(self, file_path: str) -> None:
        """Let functions import a module, or those of a folder or archive (PyFlink; deprecated).

        Here a program imports what Python finds, as any program does; this adds one place more.
        """
        _without_effect("add_python_file", "put the file beside the program, or its folder into PYTHONPATH")
        path = Path(file_path).absolute()
        folder = str(path.parent if path.suffix == ".py" else path)
        if folder not in sys.path:
            sys.path.append(folder)

    def set_python_executable(self, python_exec: str) -> None:
        """Have no effect (PyFlink; deprecated): functions run in the Python of the program."""
        _without_effect("set_python_executable", "start the program with this Python")

    def set_python_requirements(
        self, requirements_file_path: str, requirements_cache_dir: str | None = None
    ) -> None:
        """Have no effect (PyFlink; deprecated): functions import what the program can import."""
        _without_effect("set_python_requirements", "install the packages where the program runs")

    def enable_changelog_state_backend(self, enabled: bool) -> Self:
        """Keep the option and have no effect (Flink; deprecated): state has no changelog."""
        _without_effect(
            "enable_changelog_state_backend",
            f"set {STATE_BACKEND.key}: {ROCKSDB} and {CHECKPOINT_INCREMENTAL.key}: true",
        )
        self._configuration.set_boolean(CHANGELOG, enabled)
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """Return what was kept; at first None, as in Flink."""
        kept = self._configuration.get_string(CHANGELOG, "")
        return kept == "true" if kept else None

    def is_chaining_enabled(self) -> bool:
        """Return whether operators that can share a task do."""
        return self._configuration.get(OPERATOR_CHAINING)

    def enable_checkpointing(self, interval: int, mode: CheckpointingMode | None = None) -> Self:
        """Take a checkpoint every ``interval`` milliseconds; ``mode`` None leaves the mode as it is."""
        self._configuration.set(CHECKPOINT_INTERVAL, interval)
        if mode is not None:
            self._configuration.set(CHECKPOINT_MODE, mode.value)
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Bound how long records wait in buffers, and timers, barriers and requests for records.

        The buffers are those of operators that are made from now on.

        ``timeout_millis``: milliseconds; 0: each record is sent by itself; -1: no bound, buffers are full.
        """
        check_buffer_timeout(timeout_millis, "")
        self._configuration.set(BUFFER_TIMEOUT_ENABLED, timeout_millis >= 0)
        if timeout_millis >= 0:
            self._configuration.set(BUFFER_TIMEOUT, timeout_millis)
        return self

    def get_buffer_timeout(self) -> int:
        """Return the bound in milliseconds; -1: none."""
        if not self._configuration.get(BUFFER_TIMEOUT_ENABLED):
            return -1
        return self._configuration.get(BUFFER_TIMEOUT)

    def get_config(self) -> ExecutionConfig:
        """Return the settings of the execution, to read and to change."""
        return ExecutionConfig(self._configuration, self)

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Return the checkpoint settings, to read and to change."""
        return CheckpointConfig(self._configuration)

    def get_checkpoint_interval(self) -> int:
        """Return the milliseconds between two checkpoints, or -1 without checkpoints."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Return whether barriers overtake records."""
        return self.get_checkpoint_config().is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Return whether unaligned checkpoints are forced."""
        return self.get_checkpoint_config().is_force_unaligned_checkpoints()

    def set_default_savepoint_directory(self, directory: str) -> Self:
        """Set the folder of savepoints that are asked for without one."""
        self._configuration.set(SAVEPOINT_DIRECTORY, directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Return the folder of savepoints that are asked for without one, or None."""
        return self._configuration.get(SAVEPOINT_DIRECTORY)

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the mode of checkpoints."""
        return self.get_checkpoint_config().get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        """Return the mode of checkpoints, under Flink's newer name of it."""
        return self.get_checkpointing_mode()

    def get_job_graph(
        self, job_name: str | None = None, settings: CheckpointSettings | None = None
    ) -> JobGraph:
        """Build the job graph of the nodes described so far (Flink: StreamExecutionEnvironment.getJobGraph).

        ``job_name`` None: the configured name. ``settings`` None: the configured checkpoint settings. Raises
        InvalidJob. The id follows from the name; executing a job without one gives it a new id.
        """
        configuration = self._configuration
        settings = job_settings(configuration) if settings is None else settings
        if settings.state_backend.kind not in (HASHMAP, ROCKSDB):
            # Made once here, so that a wrong class is known before the job runs.
            backend_factory(settings.state_backend.kind)
        max_parallelism = self.get_max_parallelism()
        name = job_name or configuration.get(JOB_NAME)
        identity = configuration.get(CLUSTER_ID) or name
        graph = build_job_graph(
            name or identity or DEFAULT_JOB_NAME,
            self._nodes,
            settings,
            parallelism=self.get_parallelism(),
            max_parallelism=None if max_parallelism == -1 else max_parallelism,
            chaining=configuration.get(OPERATOR_CHAINING),
            auto_watermark_interval_ms=configuration.get(AUTO_WATERMARK_INTERVAL),
            identity=identity or "",
        )
        return in_runtime_mode(
            graph,
            RuntimeExecutionMode(configuration.get(RUNTIME_MODE)),
            configuration.get(SORTED_INPUTS_MEMORY),
        )

    @property
    def operators(self) -> Sequence[StreamNode]:
        """The operators of the job, upstream ones first (ours)."""
        return with_upstreams(self._nodes)

    def adopt(self, operators: Sequence[StreamNode]) -> None:
        """Describe operators of another environment in this one, in place of its own (ours)."""
        self._nodes = list(operators)
        self._next_number = 1 + max([node.number for node in operators], default=-1)

    def close(self) -> None:
        """Do nothing: an environment holds nothing open between executions."""

    def _add_node(
        self,
        name: str,
        create: Callable[[], Operator],
        upstreams: Upstreams,
        output_type: TypeInformation | None = None,
    ) -> StreamNode:
        node = StreamNode(
            self._next_number, name, create, upstreams, output_type=output_type, in_force=self._now_in_force()
        )
        self._next_number += 1
        self._nodes.append(node)
        return node

    def _now_in_force(self) -> InForce:
        """Return what counts for an operator that is made now, worked out after each change only."""
        said = (self._parallelism, self._max_parallelism, self._configuration.changes)
        if said != self._said:
            self._said = said
            self._in_force = InForce(
                self.get_parallelism(),
                self.get_max_parallelism(),
                self.get_buffer_timeout(),
                self.is_chaining_enabled(),
            )
        return self._in_force

    def _configure_as_submitted(self) -> None:
        for each in submissions():
            self.configure(each.configuration)
            self.configure(each.overrides)

    def _override_as_submitted(self) -> None:
        """Let the options of a command line that win over everything count, and explain what does."""
        for each in submissions():
            self.configure(each.overrides)
            if each.overrides.is_set(DEFAULT_PARALLELISM):
                self._parallelism = None
            if each.overrides.is_set(MAX_PARALLELISM):
                self._max_parallelism = None
            for node in with_upstreams(self._nodes):
                node.in_force = _without(node.in_force, each.overrides)
            if each.explain is not None:
                each.explain(self._effective_configuration())

    def _effective_configuration(self) -> Configuration:
        """Return the options that count, with what methods of the environment have set."""
        effective = Configuration(self._configuration)
        if self._parallelism is not None:
            effective.set(DEFAULT_PARALLELISM, self._parallelism)
        if self._max_parallelism is not None:
            effective.set(MAX_PARALLELISM, self._max_parallelism)
        return effective

    def _taken(self, job_name: str | None) -> JobClient | None:
        """Hand the job to a submission that takes it, and return the client; None: the job is to run."""
        for each in submissions():
            if each.takes is not None:
                self._override_as_submitted()
                client = each.takes(self, job_name or self._configuration.get(JOB_NAME) or "")
                self._nodes = []
                return client
        return None

    def _take_job_graph(self, job_name: str | None) -> JobGraph:
        """Build the job graph that is about to run, forget its nodes and announce it."""
        self._override_as_submitted()
        graph = self.get_job_graph(job_name)
        for key in self._configuration.without_effect():
            _logger.warning("job %r: option %s of Flink has no effect here", graph.name, key)
        for key, reason in options_without_effect(self._configuration):
            _logger.warning(
                "job %r: option %s has no effect: %s; see docs/troubleshooting.md#has-no-effect",
                graph.name,
                key,
                reason,
            )
        if not graph.identity:
            graph = replace(graph, job_id=token_hex(JOB_ID_BYTES))
        self._nodes = []
        for each in submissions():
            each.announce(graph)
        return graph
