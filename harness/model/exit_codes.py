"""From an exception to one line for the user, and an exit code.

The rules this module lives by:

- 0 passed, 1 a property failed, 3 internal error, 4 wrong usage or unusable input, 5 nothing, or too little,
  ran, 130 interrupted, 143 ended by SIGTERM; with --bisect 125 in place of 3, 4 and 5. They never change:
  `git bisect run` and CI depend on them.
- What the user can correct is reported in one line, without a traceback, and with exit code 4. What only the
  project can correct is exit code 3, in one line too; --debug shows the traceback.
- A set-up problem is a paragraph: the output of the user's own program tells more than a line.
- The modules of these error types are slow to import. If an error was raised, its module has been imported;
  so the types are listed here by module and name.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Final

PASSED: Final = 0
FAILED: Final = 1
INTERNAL: Final = 3
USAGE: Final = 4
NOTHING_RAN: Final = 5
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
TERMINATED: Final = 143
SKIPPED: Final = 125
"""For `git bisect run`: this commit cannot be judged."""

# Unusable input: module and name of the error types.
_MENDABLE: Final = frozenset(
    {
        ("onceproof.harness.model.family", "FamilyError"),
        ("onceproof.harness.model.scenario", "ScenarioError"),
        ("onceproof.harness.settings.project_settings", "SettingsError"),
        ("onceproof.harness.checkers.outcome", "OutcomeError"),
        ("onceproof.scenarios._year_of_flights", "DataMissing"),
        ("onceproof.harness.model.mutants.registry", "MutantError"),
        ("onceproof.harness.trials.output_files", "OutputUnwritable"),
        ("onceproof.harness.trials.hunt_state", "HuntError"),
        ("onceproof.harness.campaign.trial_files", "TrialsLost"),
        ("onceproof.harness.model.system", "UnknownSystem"),
        ("onceproof.harness.services.service", "ServiceError"),
        ("onceproof.reports.model", "ReportUnreadable"),
        ("onceproof.engine.runtime.java", "JavaMissing"),
        ("onceproof.engine.configuration.option", "ConfigurationError"),
        # Errors that a restart of the job does not mend: damaged checkpoints, malformed rows.
        ("onceproof.engine.errors", "UnrecoverableError"),
        ("onceproof.engine.extras", "ExtraMissing"),
        ("onceproof.engine.runtime.storage", "StorageError"),
        ("onceproof.engine.runtime.request_folder", "JobNotRunning"),
        ("onceproof.engine.runtime.request_folder", "NoAnswer"),
        ("onceproof.engine.graph", "InvalidJob"),
    }
)

# Unusable input that takes more than a line to tell.
_PARAGRAPHS: Final = frozenset({("onceproof.harness.model.program_measures", "SetUpProblem")})

# Failures of processes around the command; the message is sufficient, a traceback adds nothing.
_EXPECTED: Final = frozenset(
    {
        ("onceproof.harness.trials.pool", "WorkerDied"),
        ("onceproof.engine.runtime.spark_session", "SparkFailed"),
        ("onceproof.harness.systems.process.process_table", "SessionLives"),
        ("onceproof.harness.systems.kit.drivers", "DriverFailed"),
    }
)


REPLAY_NOTE: Final = "it comes again with: "
"""How the note of an internal error begins that names the command to replay its scenario."""


FOLLOWING: Final = "following"
"""The attribute of an error that the user can correct which holds texts to show below its line."""

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class UsageError(Exception):
    """A command line that cannot be used; the message is one line."""


def code_for_bisect(code: int) -> int:
    """Return the exit code with which `git bisect run` skips a commit that has no verdict."""
    return SKIPPED if code in (INTERNAL, USAGE, NOTHING_RAN) else code


def exit_code_of(error: Exception) -> int:
    """Return the exit code for an error."""
    error = _mistake_in(error)
    if is_full(error):
        return USAGE
    return USAGE if isinstance(error, UsageError) or _is_any(error, _MENDABLE) else INTERNAL


def line_of(error: Exception) -> str:
    error = _mistake_in(error)
    if _is_any(error, _PARAGRAPHS):
        return str(error)
    said = " ".join(str(error).split())
    if isinstance(error, UsageError) or _is_any(error, _MENDABLE | _EXPECTED):
        # What follows the line is for a file, as it stands.
        return "\n\n".join([said, *getattr(error, FOLLOWING, ())])
    if isinstance(error, OSError) and is_full(error):
        return full_line(error)
    if _is_any(error, frozenset({("onceproof.harness.trials.pool", "WorkerFailed")})):
        # Its message is the traceback of another process; the last line is the error, or a note below it.
        lines = str(error).strip().splitlines()
        notes = [line for line in lines if line.startswith(REPLAY_NOTE)]
        (last,) = [line for line in lines if line not in notes][-1:]
        return _internal(" ".join(last.split()), notes)
    return _internal(f"{type(error).__name__}: {said}", getattr(error, "__notes__", ()))


def is_full(error: BaseException) -> bool:
    """Return whether an error is that of a full disk, of a quota, or of a limit on the size of a file."""
    return isinstance(error, OSError) and error.errno in _FULL


def full_line(error: OSError) -> str:
    """Return the line for a full disk: its path, or the folders that a process writes to if it names none."""
    import tempfile

    path = error.filename or f"{Path.cwd()}, or the temporary files in {tempfile.gettempdir()}"
    return f"{path}: cannot be written: {error.strerror}: free some space, or name another folder"


def _internal(said: str, notes: Sequence[str]) -> str:
    replays = "".join([f"; {note}" for note in notes if note.startswith(REPLAY_NOTE)][:1])
    return f"internal error: {said}; --debug shows where{replays}"


def _mistake_in(error: Exception) -> Exception:
    """Return the user's mistake that ended a run, where the error holds one; else the error itself."""
    mistake: Exception = getattr(error, "mistake", error)
    return mistake


def _is_any(error: Exception, kinds: frozenset[tuple[str, str]]) -> bool:
    return any((kind.__module__, kind.__name__) in kinds for kind in type(error).__mro__)
