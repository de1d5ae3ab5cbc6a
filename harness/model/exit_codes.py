"""From an exception to what a user reads and a script sees: one line, and an exit code.

The rules this module lives by:

- 0 passed, 1 a property failed, 3 internal error, 4 wrong usage or input that cannot be used, 5 nothing ran,
  130 interrupted. They never change: `git bisect run` and CI stand on them.
- Whatever its user can mend is told in one line, without a traceback, and with exit code 4. What only we can
  mend is exit code 3, in one line too; the traceback is for whoever asks with --debug.
- The kinds of error live in modules that are dear to import. If one of them was raised, its module has been
  imported; so they are known here by their names.
"""

from __future__ import annotations

from typing import Final

PASSED: Final = 0
FAILED: Final = 1
INTERNAL: Final = 3
USAGE: Final = 4
NOTHING_RAN: Final = 5
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141

# Input that cannot be used, by the module and the name of what is raised for it.
_MENDABLE: Final = frozenset(
    {
        ("onceproof.harness.model.family", "FamilyError"),
        ("onceproof.harness.model.scenario", "ScenarioError"),
        ("onceproof.harness.settings.project_settings", "SettingsError"),
        ("onceproof.harness.checkers.outcome", "OutcomeError"),
        ("onceproof.harness.flights.data", "DataMissing"),
        ("onceproof.harness.model.mutants.registry", "MutantError"),
        ("onceproof.harness.trials.runner", "OutputUnwritable"),
        ("onceproof.harness.model.system", "UnknownSystem"),
        ("onceproof.reports.model", "ReportUnreadable"),
        ("onceproof.engine.runtime.java", "JavaMissing"),
        ("onceproof.engine.configuration.configuration", "ConfigurationError"),
        # What no restart of a job mends: damaged checkpoints, malformed rows.
        ("onceproof.engine.errors", "UnrecoverableError"),
        ("onceproof.engine.extras", "ExtraMissing"),
        ("onceproof.engine.runtime.storage", "StorageError"),
        ("onceproof.engine.runtime.request_folder", "JobNotRunning"),
        ("onceproof.engine.runtime.request_folder", "NoAnswer"),
        ("onceproof.engine.graph", "InvalidJob"),
    }
)

# What went wrong around us; the message says all, and the traceback nothing more.
_EXPECTED: Final = frozenset(
    {
        ("onceproof.harness.trials.pool", "WorkerDied"),
        ("onceproof.engine.runtime.spark_session", "SparkFailed"),
        ("onceproof.harness.systems.spark.driver_process", "DriverFailed"),
    }
)


class UsageError(Exception):
    """A command that was given what it cannot use; the message is one line."""


def exit_code_of(error: Exception) -> int:
    """Return the exit code for an error."""
    error = _mistake_in(error)
    return USAGE if isinstance(error, UsageError) or _is_any(error, _MENDABLE) else INTERNAL


def line_of(error: Exception) -> str:
    """Return an error in one line."""
    error = _mistake_in(error)
    said = " ".join(str(error).split())
    if isinstance(error, UsageError) or _is_any(error, _MENDABLE | _EXPECTED):
        return said
    if _is_any(error, frozenset({("onceproof.harness.trials.pool", "WorkerFailed")})):
        # Its message is the traceback of another process, which ends with what happened.
        said = " ".join(str(error).strip().splitlines()[-1].split())
        return f"internal error: {said}; --debug shows where"
    return f"internal error: {type(error).__name__}: {said}; --debug shows where"


def _mistake_in(error: Exception) -> Exception:
    """Return what ended a run, where that was a mistake; else the error itself."""
    mistake: Exception = getattr(error, "mistake", error)
    return mistake


def _is_any(error: Exception, kinds: frozenset[tuple[str, str]]) -> bool:
    return any((kind.__module__, kind.__name__) in kinds for kind in type(error).__mro__)
