"""The log of a simulated process: its records go into the history, for the checkers and the trace."""

from __future__ import annotations

from onceproof.engine.runtime.job_log import JobLog
from onceproof.harness.systems.simulation.run_recorder import RunRecorder


class RecordedJobLog(JobLog):
    """The log of a simulated process, once it has a recorder."""

    recorder: RunRecorder

    def write(self, level: int, message: str) -> None:
        """Enter a record into the history."""
        self.recorder.logged(message)
