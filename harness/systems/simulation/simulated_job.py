"""The family's job in the simulation, at the parallelism and with the settings that the next attempt gets."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from onceproof.engine.api.datastream import StreamExecutionEnvironment
from onceproof.engine.configuration import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    ROCKSDB,
    UNLIMITED_RESTARTS,
    CheckpointSettings,
    Configuration,
    ExponentialDelayRestarts,
    FailureRateRestarts,
    FixedDelayRestarts,
    NoRestarts,
    RestartSettings,
    StateBackendSettings,
    job_settings,
)
from onceproof.engine.graph import JobGraph
from onceproof.harness.model.family import Family, options_of
from onceproof.harness.model.family_places import check_table_keys
from onceproof.harness.model.history import Cut
from onceproof.harness.model.job_settings import DELAY_GROWTH
from onceproof.harness.model.scenario import Fault, Scenario, StateBackend
from onceproof.harness.systems.job_configuration import check_configuration
from onceproof.harness.systems.simulation.external_system import OPEN, TransactionalSystem
from onceproof.harness.systems.simulation.modelled_databases import databases_for
from onceproof.harness.systems.simulation.simulated_io import SimulatedIO, SimulatedLog

SHARED_MEMORY: Final = "/dev/shm"
"""A folder in memory, where the system has one: on a disk, opening a database takes many times as long."""

_ON_THE_HEAP: Final = StateBackendSettings()
DATABASES: Final = StateBackendSettings(
    ROCKSDB,
    SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None,
    block_cache_bytes=1 << 20,
    write_buffer_bytes=1 << 20,
)


_DATABASES_THAT_SHARE: Final = replace(DATABASES, incremental=True)


def _backend(scenario: Scenario) -> StateBackendSettings:
    if scenario.state_backend != ROCKSDB:
        return _ON_THE_HEAP
    return _DATABASES_THAT_SHARE if scenario.incremental is True else DATABASES


def _restarts(scenario: Scenario) -> RestartSettings:
    wanted, delay_ms = scenario.restarts, scenario.restart_delay_ms
    if wanted is UNSET:
        return FixedDelayRestarts(UNLIMITED_RESTARTS, delay_ms)
    match wanted.strategy:
        case "none":
            return NoRestarts()
        case "fixed_delay":
            return FixedDelayRestarts(wanted.most, delay_ms)
        case "failure_rate":
            return FailureRateRestarts(wanted.most, wanted.window_ms, delay_ms)
        case "exponential_delay":
            return ExponentialDelayRestarts(
                initial_backoff_ms=delay_ms,
                max_backoff_ms=wanted.longest_delay_ms(delay_ms),
                backoff_multiplier=DELAY_GROWTH,
                reset_threshold_ms=wanted.window_ms,
                attempts=wanted.most,
            )


def simulated_settings(scenario: Scenario) -> CheckpointSettings:
    """Return what the scenario says of checkpoints and restarts; everything else is the engine's default."""
    mode = scenario.checkpoint_mode
    return CheckpointSettings(
        interval_ms=(
            max(scenario.checkpoint_interval_ms, mode.min_pause_ms) if scenario.takes_checkpoints else None
        ),
        min_pause_ms=mode.min_pause_ms,
        max_concurrent=mode.max_concurrent,
        mode=AT_LEAST_ONCE if mode.barriers == "at_least_once" else EXACTLY_ONCE,
        unaligned=mode.barriers == "unaligned",
        forces_unaligned=True,
        aligned_timeout_ms=mode.aligned_timeout_ms,
        timeout_ms=scenario.checkpoint_timeout_ms,
        tolerable_failures=scenario.tolerable_failures,
        num_retained=scenario.retained,
        restarts=_restarts(scenario),
        state_backend=_backend(scenario),
    )


def with_options_of_job(settings: CheckpointSettings, configuration: Configuration) -> CheckpointSettings:
    """Return the settings with what a family's job may set itself (`job_configuration.py`)."""
    own = job_settings(configuration)
    return replace(
        settings,
        allow_pickled_state=own.allow_pickled_state,
        checkpoints_after_tasks_finish=own.checkpoints_after_tasks_finish,
        job_parameters=own.job_parameters,
        max_equal_errors=own.max_equal_errors,
        recovery=own.recovery,
        source_on_change=own.source_on_change,
    )


class SimulatedJob:
    """Builds the graph of each attempt; faults and the scenario's user may change the job in between."""

    __slots__ = (
        "_external",
        "_family",
        "_log",
        "_scenario",
        "_settings",
        "databases",
        "has_sink",
        "is_upgraded",
        "keyed_parallelism",
        "sets_max_parallelism",
    )

    def __init__(
        self, family: Family, scenario: Scenario, log: SimulatedLog, external: TransactionalSystem
    ) -> None:
        self._family = family
        self._scenario = scenario
        self._log = log
        self._external = external
        self._settings = simulated_settings(scenario)
        self.databases = databases_for(scenario)
        """Opens databases, also for a job on the heap that restores one; None: RocksDB does."""
        self.keyed_parallelism = scenario.parallelism
        """Of the keyed operators in the next attempt."""
        self.has_sink = False
        """Whether the graph that was built last writes to a sink of the harness."""
        self.sets_max_parallelism = True
        """Whether the next graph has a maximum parallelism of its own, or that of the checkpoint."""
        self.is_upgraded = False
        """Whether the next process runs the new version of the job."""

    @property
    def is_drawn(self) -> bool:
        """Whether the graph is drawn with the records; see ``FamilyOptions.draws_graphs``."""
        return options_of(self._family).draws_graphs

    def change_input(self, fault: Fault, cut: Cut) -> str:
        """Change the input that a cut covers; return the name of what has changed, "" if nothing has."""
        return self._log.change(fault, cut)

    def take_output(self) -> bool:
        """Take the visible output away, as a consumer does; return whether any of it had a name to vanish."""
        return self._external.take_visible()

    def list_short(self, while_true: Callable[[], bool]) -> None:
        """Have the sources list all splits but one while a condition holds."""
        self._log.list_short(while_true)

    def move_to(self, backend: StateBackend) -> None:
        """Have the next process keep keyed state on another backend."""
        self._settings = simulated_settings(replace(self._scenario, state_backend=backend))

    def open_transactions(self) -> int:
        """Return how many transactions of the job have rows and are not prepared."""
        return sum(bool(each.rows) and each.state == OPEN for each in self._external.unsettled())

    def build_graph(self) -> JobGraph:
        """Return the graph of the next attempt.

        Raises:
            FamilyError: the job replaces rows by key, and the family expects rows that are only added; or it
                sets an option that has no place in a family.
        """
        scenario, parallelism = self._scenario, self.keyed_parallelism
        environment = StreamExecutionEnvironment(Configuration())
        environment.set_parallelism(parallelism)
        if self.sets_max_parallelism:
            environment.set_max_parallelism(scenario.max_parallelism)
        environment.get_config().set_auto_watermark_interval(scenario.watermark_interval)
        given = Configuration(environment.get_configuration())
        io = SimulatedIO(scenario, parallelism, self._log, self._external)
        upgraded = options_of(self._family).upgraded
        describe = upgraded if self.is_upgraded and upgraded is not None else self._family.job
        describe(environment, io)
        self.has_sink = io.has_sink
        check_table_keys(self._family, io.table_keys, f"io.upsert_sink(..., {io.table_keys})")
        settings = self._settings
        if check_configuration(self._family, environment.get_configuration(), given):
            settings = with_options_of_job(settings, environment.get_configuration())
        return environment.get_job_graph(self._family.name, settings)
