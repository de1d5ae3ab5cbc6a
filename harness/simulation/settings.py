"""A scenario's settings as the engine's."""

from __future__ import annotations

from engine.configuration import CheckpointSettings
from harness.scenario import Scenario

UNLIMITED = (1 << 31) - 1


def simulated_settings(scenario: Scenario) -> CheckpointSettings:
    """What the scenario says of checkpoints and restarts; everything else is the engine's default."""
    return CheckpointSettings(
        interval_ms=scenario.checkpoint_interval_ms,
        timeout_ms=scenario.checkpoint_timeout_ms,
        tolerable_failures=scenario.tolerable_failures,
        num_retained=scenario.retained,
        restart_attempts=UNLIMITED,
        restart_delay_ms=scenario.restart_delay_ms,
    )
