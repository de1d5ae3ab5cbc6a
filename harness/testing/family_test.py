"""Runs the scenarios of a test: finds the family, runs and checks them, and returns the failure text.

The pytest plugin calls the harness only through this module. An error that the user can correct becomes
UnusableRequest with a text; any other error is raised unchanged, with its traceback.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

import msgspec

from onceproof.harness.model.exit_codes import USAGE, exit_code_of, line_of
from onceproof.harness.model.family import Family, source_file
from onceproof.harness.model.system import Closable, System, find_system
from onceproof.harness.settings.planning import budget_of
from onceproof.harness.settings.project_settings import load_settings
from onceproof.harness.systems.simulation.stopping import seconds_for_each
from onceproof.harness.testing.failure_text import PytestContext, failures_text, first_line
from onceproof.harness.testing.family_lookup import (
    FamilyLike,
    extended_python_path,
    find_family,
    needed_python_path,
)
from onceproof.harness.testing.proof import Proof, prove, replay
from onceproof.harness.trials.run_plan import SEED
from onceproof.harness.trials.tally import Tally

IGNORED: Final = (
    "# Failed scenarios, to be replayed. Copy what is worth keeping to a folder of regressions.\n*\n"
)


class UnusableRequest(Exception):
    """The test asks for something impossible that its author can correct; the message says where and how."""


class SystemPool:
    """The systems under test of this pytest process. Each starts once, because a start may take seconds.

    Child processes of a system keep the PYTHONPATH of its start, so a family that needs other folders gets
    another instance of the system.
    """

    def __init__(self) -> None:
        self.started: dict[tuple[str, tuple[str, ...]], System] = {}
        """The running systems by name and folders."""

    def find(self, name: str, folders: Sequence[str]) -> System:
        """Return the system with this name for a family whose modules are in these folders."""
        key = (name, tuple(folders))
        if key not in self.started:
            self.started[key] = find_system(name)
        return self.started[key]

    def close(self) -> None:
        """Close all systems, which ends their child processes."""
        for system in self.started.values():
            if isinstance(system, Closable):
                system.close()
        self.started.clear()


@dataclass(frozen=True, slots=True)
class ItemContext:
    """A test item with the options of its pytest run."""

    module: ModuleType | None
    folders: tuple[Path, ...]
    """Folders to which paths in a test are relative, in order."""
    root: Path
    """pytest's rootdir; the search for pyproject.toml starts there and goes upwards."""
    kept: Path
    """Folder for failures."""
    is_default_folder: bool
    """True if --onceproof-out is not given; the folder then gets a .gitignore."""
    seed: int | None
    """None: the seed of the settings, or 0."""
    shrink_runs: int | None
    """Runs to shrink each failure; None: that of the settings, or the default of the system."""
    systems: SystemPool
    """The systems that earlier tests of this process have started."""
    context: PytestContext


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The result of the scenarios of a test."""

    tally: Tally
    failed: str = ""
    """Text of the new failures; empty if there are none."""
    known: str = ""
    """Text of the failures that the settings list; empty if there are none."""


def run_in_process(family: FamilyLike, system: str, asked: range | Path, item: ItemContext) -> RunOutcome:
    """Run scenarios of a family in this process, and return their result.

    ``asked`` is a range of scenario numbers, or the path of one scenario's JSON. Raises UnusableRequest.
    """
    found: Family | None = None
    try:
        settings = load_settings(item.root)
        if item.shrink_runs is not None:
            settings = msgspec.structs.replace(settings, shrink_runs=item.shrink_runs)
        found = find_family(family, item.module, item.folders)
        folders = needed_python_path(found, item.context.path_at_start)
        on_trial = item.systems.find(system, folders)
        with extended_python_path(folders), seconds_for_each(budget_of(settings).seconds):
            if isinstance(asked, Path):
                proof = replay(found, on_trial, asked, settings.known)
            else:
                seeds = (item.seed, settings.seed, SEED)
                seed = next(each for each in seeds if each is not None)
                proof = prove(found, on_trial, seed, asked, _folder_for(item), settings)
    except Exception as error:
        if exit_code_of(error) != USAGE:
            raise
        raise UnusableRequest("\n".join((line_of(error), *_traceback_of(error, found)))) from None
    if item.is_default_folder and proof.failures and proof.seed is not None:
        _hide_from_git(item.kept)
    return _outcome_of(proof, item.context)


def _folder_for(item: ItemContext) -> Path:
    """Return a folder of failures for this test alone, because tests may run at the same time."""
    return item.kept / re.sub(r"[^A-Za-z0-9_.-]+", "-", item.context.test.replace(".py::", ".")).strip("-.")


def _hide_from_git(folder: Path) -> None:
    """Write a .gitignore that excludes the whole folder."""
    with suppress(FileExistsError), (folder / ".gitignore").open("x", encoding="utf-8") as ignore:
        ignore.write(IGNORED)


def _outcome_of(proof: Proof, context: PytestContext) -> RunOutcome:
    new = tuple(failure for failure in proof.failures if failure.known is None)
    known = "; ".join(
        f"known: {first_line(proof, failure)}" + (f" ({about})" if (about := failure.known.about()) else "")
        for failure in proof.failures
        if failure.known is not None
    )
    return RunOutcome(proof.tally, failures_text(proof, new, context), known)


def _traceback_of(error: Exception, family: Family | None) -> Iterator[str]:
    """Yield the traceback of an error in a family's code, from the family's first frame on."""
    cause = error.__cause__
    file = None if family is None else source_file(family)
    if cause is None or file is None:
        return
    frames = traceback.extract_tb(cause.__traceback__)
    first = next((number for number, frame in enumerate(frames) if frame.filename == file), len(frames))
    for line in traceback.format_list(frames[first:]):
        yield line.rstrip("\n")
