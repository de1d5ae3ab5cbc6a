"""The log of a simulated process: its records go into the history, for the checkers and the trace."""

from __future__ import annotations

from onceproof.engine.runtime.job_log import JobLog
from onceproof.engine.runtime.slow_checkpoints import Delay
from onceproof.harness.systems.simulation.run_recorder import RunRecorder


class RecordedJobLog(JobLog):
    """The log of a simulated process, once it has a recorder."""

    recorder: RunRecorder

    def checkpoint_waited(self, checkpoint_id: int, task: str, delay: Delay, now: int) -> None:
        """Say nothing: what a user may do about a slow checkpoint is no part of a run."""

    def write(self, level: int, message: str) -> None:
        """Enter a record into the history."""
        self.recorder.logged(message)
