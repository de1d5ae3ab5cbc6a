"""`onceproof campaign` and `onceproof nightly`: handed on to the modules that do the work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def campaign_command(
    families: Sequence[str],
    scenarios: int | None,
    max_time: float | None,
    seed: int,
    master: str | None,
    out: Path,
    as_json: bool,
    command: str,
) -> int:
    """Run a campaign on Spark and return the exit code."""
    raise NotImplementedError


def nightly_command(out: Path, max_time: float) -> int:
    """Do the night's work and return the exit code."""
    from importlib import import_module

    code: int = import_module("harness.nightly").nightly(out, max_time)
    return code
