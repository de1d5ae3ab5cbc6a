"""What all tasks of an attempt share: decided by the driver, once."""

from __future__ import annotations

from msgspec import Struct

from onceproof.engine.configuration.alignment import ALIGNED, CheckpointOptions
from onceproof.engine.configuration.backends import StateBackendSettings
from onceproof.engine.messages import AttemptId
from onceproof.engine.protocol_points import Probe


class TaskSettings(Struct, frozen=True):
    """Whose tasks they are, how much they read at once, and who watches them.

    Elements are passed so often that the probe is told of them only where somebody asks for that.
    ``settled`` says that the driver commits what checkpoints list, since the tasks do not live that long.
    """

    attempt: AttemptId
    buffer_records: int
    probe: Probe
    checkpointing: bool
    allow_pickle: bool = False
    watches_elements: bool = True
    settled: bool = False
    state_backend: StateBackendSettings = StateBackendSettings()
    options: CheckpointOptions = ALIGNED
    """How barriers of checkpoints travel; those of savepoints are always aligned."""
