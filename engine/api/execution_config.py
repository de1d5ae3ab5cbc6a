"""Settings of a job's execution, under PyFlink's names (PyFlink: ExecutionConfig).

Rules:

- It is a view of the configuration: what is set here is set there, and is checked there.
- What means nothing here is kept and given back, and is logged when a job starts: objects are always reused,
  values have no serializers to choose, and a task is cancelled between two records.
- What chooses Java serializers is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol
from warnings import warn

from onceproof.engine.api.restart_strategy_options import RestartStrategyConfiguration
from onceproof.engine.configuration import (
    AUTO_WATERMARK_INTERVAL,
    DEFAULT_PARALLELISM,
    JOB_PARAMETERS,
    Configuration,
)
from onceproof.engine.configuration.parsing import parse_duration_ms
from onceproof.engine.configuration.restart_options import RESTART_STRATEGY

LATENCY_INTERVAL: Final = "metrics.latency.interval"
CANCELLATION_INTERVAL: Final = "task.cancellation.interval"
CANCELLATION_TIMEOUT: Final = "task.cancellation.timeout"
GENERIC_TYPES: Final = "pipeline.generic-types"
AUTO_GENERATED_UIDS: Final = "pipeline.auto-generate-uids"
OBJECT_REUSE: Final = "pipeline.object-reuse"
SNAPSHOT_COMPRESSION: Final = "execution.checkpointing.snapshot-compression"


class HasParallelism(Protocol):
    """An environment: a parallelism that was set there wins over the configuration."""

    def set_parallelism(self, parallelism: int) -> Any:
        """Set the number of subtasks of every operator without its own."""

    def get_parallelism(self) -> int:
        """Return the number of subtasks of an operator without its own."""

    def set_max_parallelism(self, max_parallelism: int) -> Any:
        """Set the number of key groups of every operator without its own."""

    def get_max_parallelism(self) -> int:
        """Return the number of key groups of an operator without its own; -1: from its parallelism."""


class ExecutionConfig:
    """Reads and sets options of a configuration."""

    PARALLELISM_DEFAULT = -1
    """As a parallelism: that of the configuration."""
    PARALLELISM_UNKNOWN = -2
    """As a parallelism: leave it as it is."""

    def __init__(self, configuration: Configuration, environment: HasParallelism) -> None:
        self._configuration = configuration
        self._environment = environment

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """Ask watermark generators every ``interval`` milliseconds; 0: only at records."""
        self._configuration.set(AUTO_WATERMARK_INTERVAL, interval)
        return self

    def get_auto_watermark_interval(self) -> int:
        """How often watermark generators are asked, in milliseconds."""
        return self._configuration.get(AUTO_WATERMARK_INTERVAL)

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """Set the number of subtasks of every operator without its own.

        PARALLELISM_DEFAULT restores that of the configuration, PARALLELISM_UNKNOWN leaves it as it is.
        """
        if parallelism == self.PARALLELISM_DEFAULT:
            self._environment.set_parallelism(self._configuration.get(DEFAULT_PARALLELISM))
        elif parallelism != self.PARALLELISM_UNKNOWN:
            self._environment.set_parallelism(parallelism)
        return self

    def get_parallelism(self) -> int:
        """Return the number of subtasks of an operator without its own."""
        return self._environment.get_parallelism()

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """Set the number of key groups of every operator without its own."""
        self._environment.set_max_parallelism(max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups of an operator without its own; -1: from its parallelism."""
        return self._environment.get_max_parallelism()

    def set_restart_strategy(
        self, restart_strategy_configuration: RestartStrategyConfiguration
    ) -> ExecutionConfig:
        """Set the options of a restart strategy (Flink 1; deprecated: set `restart-strategy.type`)."""
        warn(
            f"set_restart_strategy is deprecated: set the option {RESTART_STRATEGY.key!r}",
            DeprecationWarning,
            stacklevel=2,
        )
        restart_strategy_configuration.set_in(self._configuration)
        return self

    def set_global_job_parameters(self, global_job_parameters_dict: Mapping[str, Any]) -> ExecutionConfig:
        """Give every function texts by name: ``RuntimeContext.get_job_parameter`` reads them.

        Args:
            global_job_parameters_dict: name -> value; a value that is no text becomes one.
        """
        given = {str(key): str(value) for key, value in global_job_parameters_dict.items()}
        self._configuration.set(JOB_PARAMETERS, given)
        return self

    def get_global_job_parameters(self) -> dict[str, str]:
        """Return the parameters of the job by name."""
        given = self._configuration.get(JOB_PARAMETERS)
        return {} if given is None else dict(given)

    # What follows is kept and has no effect.

    def enable_object_reuse(self) -> ExecutionConfig:
        """Keep that objects are reused, which they always are: values are passed by reference."""
        return self._keep(OBJECT_REUSE, True)

    def disable_object_reuse(self) -> ExecutionConfig:
        """Keep that objects are not to be reused. They are nonetheless: values are passed by reference."""
        return self._keep(OBJECT_REUSE, False)

    def is_object_reuse_enabled(self) -> bool:
        """Return what was kept; at first false, as in Flink."""
        return self._configuration.get_boolean(OBJECT_REUSE, False)

    def enable_generic_types(self) -> ExecutionConfig:
        """Keep that values without a declared type are allowed, which they always are."""
        return self._keep(GENERIC_TYPES, True)

    def disable_generic_types(self) -> ExecutionConfig:
        """Keep that values without a declared type are not allowed. They are nonetheless."""
        return self._keep(GENERIC_TYPES, False)

    def has_generic_types_disabled(self) -> bool:
        """Return what was kept; at first false."""
        return not self._configuration.get_boolean(GENERIC_TYPES, True)

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        """Keep that operators without a uid get an id from their place, which they always do."""
        return self._keep(AUTO_GENERATED_UIDS, True)

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """Keep that each operator needs a uid. Those without one get an id from their place nonetheless."""
        return self._keep(AUTO_GENERATED_UIDS, False)

    def has_auto_generated_uids_enabled(self) -> bool:
        """Return what was kept; at first true."""
        return self._configuration.get_boolean(AUTO_GENERATED_UIDS, True)

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        """Keep whether snapshots are to be compressed; they never are."""
        return self._keep(SNAPSHOT_COMPRESSION, use_snapshot_compression)

    def is_use_snapshot_compression(self) -> bool:
        """Return what was kept; at first false."""
        return self._configuration.get_boolean(SNAPSHOT_COMPRESSION, False)

    def set_latency_tracking_interval(self, interval: int) -> ExecutionConfig:
        """Keep an interval of latency marks in milliseconds; sources send none."""
        return self._keep(LATENCY_INTERVAL, interval)

    def get_latency_tracking_interval(self) -> int:
        """Return the kept interval of latency marks in milliseconds; at first 0."""
        return self._kept(LATENCY_INTERVAL, 0)

    def set_task_cancellation_interval(self, interval: int) -> ExecutionConfig:
        """Keep an interval in milliseconds; a task is cancelled once, between two records."""
        return self._keep(CANCELLATION_INTERVAL, interval)

    def get_task_cancellation_interval(self) -> int:
        """Return the kept interval in milliseconds; at first 30,000."""
        return self._kept(CANCELLATION_INTERVAL, 30_000)

    def set_task_cancellation_timeout(self, timeout: int) -> ExecutionConfig:
        """Keep a time in milliseconds; a task that hangs in a function is not abandoned."""
        return self._keep(CANCELLATION_TIMEOUT, timeout)

    def get_task_cancellation_timeout(self) -> int:
        """Return the kept time in milliseconds; at first 180,000."""
        return self._kept(CANCELLATION_TIMEOUT, 180_000)

    def _keep(self, key: str, value: bool | int) -> ExecutionConfig:
        if isinstance(value, bool):
            self._configuration.set_boolean(key, value)
        else:
            self._configuration.set_integer(key, value)
        return self

    def _kept(self, key: str, unset: int) -> int:
        return parse_duration_ms(self._configuration.get_string(key, str(unset)))
