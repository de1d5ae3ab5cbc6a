"""A scenario's settings as the engine's."""

from __future__ import annotations

import os
from typing import Final

from msgspec.structs import replace

from onceproof.engine.configuration import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    ROCKSDB,
    UNLIMITED_RESTARTS,
    CheckpointSettings,
    Configuration,
    FixedDelayRestarts,
    StateBackendSettings,
    job_settings,
)
from onceproof.harness.model.scenario import Scenario

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


def simulated_settings(scenario: Scenario) -> CheckpointSettings:
    """Return what the scenario says of checkpoints and restarts; everything else is the engine's default."""
    mode = scenario.checkpoint_mode
    return CheckpointSettings(
        interval_ms=max(scenario.checkpoint_interval_ms, mode.min_pause_ms),
        min_pause_ms=mode.min_pause_ms,
        max_concurrent=mode.max_concurrent,
        mode=EXACTLY_ONCE if scenario.is_exactly_once else AT_LEAST_ONCE,
        unaligned=mode.barriers == "unaligned",
        forces_unaligned=True,
        aligned_timeout_ms=mode.aligned_timeout_ms,
        timeout_ms=scenario.checkpoint_timeout_ms,
        tolerable_failures=scenario.tolerable_failures,
        num_retained=scenario.retained,
        restarts=FixedDelayRestarts(UNLIMITED_RESTARTS, scenario.restart_delay_ms),
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
