"""A scenario's settings as the engine's."""

from __future__ import annotations

from engine.configuration import UNLIMITED_RESTARTS, CheckpointSettings, FixedDelayRestarts
from harness.scenario import Scenario


def simulated_settings(scenario: Scenario) -> CheckpointSettings:
    """What the scenario says of checkpoints and restarts; everything else is the engine's default."""
    return CheckpointSettings(
        interval_ms=scenario.checkpoint_interval_ms,
        timeout_ms=scenario.checkpoint_timeout_ms,
        tolerable_failures=scenario.tolerable_failures,
        num_retained=scenario.retained,
        restarts=FixedDelayRestarts(UNLIMITED_RESTARTS, scenario.restart_delay_ms),
    )
