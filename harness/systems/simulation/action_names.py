"""What the messages and timers of a simulated process are called, in the schedule and in the history."""

from __future__ import annotations

from typing import Any, Final

from onceproof.engine.checkpoint.events import CheckpointExpired, IntervalElapsed
from onceproof.engine.job.events import RestartDue
from onceproof.engine.messages import (
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    TaskFailed,
    TaskFinished,
    TaskRunning,
    TriggerCheckpoint,
)
from onceproof.engine.protocol_points import ACKNOWLEDGED, NOTIFIED, TRIGGERED
from onceproof.harness.model.history import EXPIRY_WAIT, INTERVAL_WAIT, RESTART_WAIT
from onceproof.harness.systems.simulation.actions import CLASS_INDEX

TRAVEL: Final[dict[Any, tuple[int, str, str]]] = {
    TriggerCheckpoint: (CLASS_INDEX["message_trigger"], "trigger", TRIGGERED),
    AcknowledgeCheckpoint: (CLASS_INDEX["message_acknowledge"], "acknowledge", ACKNOWLEDGED),
    NotifyCheckpointComplete: (CLASS_INDEX["message_notify"], "notify", NOTIFIED),
    NotifyCheckpointAborted: (CLASS_INDEX["message_control"], "abort", "abort_notified"),
    DeclineCheckpoint: (CLASS_INDEX["message_control"], "decline", "declined"),
}
"""Class, label and point of the messages of a checkpoint, all of which a fault can strike."""

NAMES: Final[dict[Any, str]] = {kind: kind.__name__ for kind in (TaskRunning, TaskFinished, TaskFailed)}
"""Of the messages that belong to no checkpoint."""

WAITS: Final[dict[Any, str]] = {
    RestartDue: RESTART_WAIT,
    IntervalElapsed: INTERVAL_WAIT,
    CheckpointExpired: EXPIRY_WAIT,
}
"""The timers of the job master whose length is judged."""
