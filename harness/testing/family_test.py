"""What a test does with a family: find it, run its scenarios, and say in text how that ended.

This is all that the pytest plugin knows of the harness. What the user can mend is told in text; what only we
can mend is raised as it is, with its traceback.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Final

from onceproof.harness.model.exit_codes import USAGE, exit_code_of, line_of
from onceproof.harness.model.family import Family, source_file
from onceproof.harness.model.system import Closable, System, find_system
from onceproof.harness.settings.project_settings import load_settings
from onceproof.harness.settings.run_plan import SEED
from onceproof.harness.testing.failure_text import Desk, failures_text, first_line
from onceproof.harness.testing.families import FamilyLike, find_family, found_by_children, needed_paths
from onceproof.harness.testing.proof import Proof, prove, replay
from onceproof.harness.trials.tally import Tally

IGNORED: Final = (
    "# Failed scenarios, to be replayed. Copy what is worth keeping to a folder of regressions.\n*\n"
)


class Unusable(Exception):
    """What the test asks for cannot be done, and its user can mend it; the message says where and how."""


class Systems:
    """The systems that the tests of this process put on trial: each is started once, as it may take seconds.

    The processes that one has started look for modules where they were told then, so a family that needs
    other folders gets a system of its own.
    """

    def __init__(self) -> None:
        self._started: dict[tuple[str, tuple[str, ...]], System] = {}

    def find(self, name: str, folders: Sequence[str]) -> System:
        """Return a system by its name, for a family with modules in these folders."""
        key = (name, tuple(folders))
        if key not in self._started:
            self._started[key] = find_system(name)
        return self._started[key]

    def close(self) -> None:
        """End what they have started."""
        for system in self._started.values():
            if isinstance(system, Closable):
                system.close()
        self._started.clear()


@dataclass(frozen=True, slots=True)
class Place:
    """The test, and where it stands."""

    module: ModuleType | None
    folders: tuple[Path, ...]
    """Where the paths in a test are looked for."""
    root: Path
    """Where settings are looked for, and upwards."""
    kept: Path
    """Where failures are kept."""
    is_ours: bool
    """Whether nobody has named that folder, so that it is ours to arrange."""
    seed: int | None
    """None: what the settings say, or 0."""
    shrink_time: float | None
    """Seconds for each failure; None: what the settings say, or as many as is usual."""
    systems: Systems
    """What the tests before this one have started."""
    desk: Desk


@dataclass(frozen=True, slots=True)
class Ended:
    """How the scenarios of a test ended."""

    tally: Tally
    failed: str = ""
    """What is told of the failures that are new."""
    known: str = ""
    """What is told of the failures that the settings list."""


def run_here(family: FamilyLike, system: str, asked: range | Path, place: Place) -> Ended:
    """Run the scenarios of these numbers, or the one in a file, in this process. Raises Unusable."""
    found: Family | None = None
    try:
        settings = load_settings(place.root)
        if place.shrink_time is not None:
            settings = replace(settings, shrink_time=place.shrink_time)
        found = find_family(family, place.module, place.folders)
        folders = needed_paths(found, place.desk.path_at_start)
        on_trial = place.systems.find(system, folders)
        with found_by_children(folders):
            if isinstance(asked, Path):
                proof = replay(found, on_trial, asked, settings.known)
            else:
                given = (place.seed, settings.seed, SEED)
                seed = next(each for each in given if each is not None)
                proof = prove(found, on_trial, seed, asked, _folder_for(place), settings)
    except Exception as error:
        if exit_code_of(error) != USAGE:
            raise
        raise Unusable("\n".join((line_of(error), *_traceback_of(error, found)))) from None
    if place.is_ours and proof.failures and proof.seed is not None:
        _hide_from_git(place.kept)
    return _ended(proof, place.desk)


def _folder_for(place: Place) -> Path:
    """Return the test's own folder of failures: two tests that run at once must not write one file."""
    return place.kept / re.sub(r"[^A-Za-z0-9_.-]+", "-", place.desk.test.replace(".py::", ".")).strip("-.")


def _hide_from_git(folder: Path) -> None:
    """Let git ignore what is kept in a folder."""
    with suppress(FileExistsError), (folder / ".gitignore").open("x", encoding="utf-8") as ignore:
        ignore.write(IGNORED)


def _ended(proof: Proof, desk: Desk) -> Ended:
    new = tuple(failure for failure in proof.failures if failure.known is None)
    known = "; ".join(
        f"known: {first_line(proof, failure)}" + (f" ({about})" if (about := failure.known.about()) else "")
        for failure in proof.failures
        if failure.known is not None
    )
    return Ended(proof.tally, failures_text(proof, new, desk), known)


def _traceback_of(error: Exception, family: Family | None) -> Iterator[str]:
    """Yield the traceback of a mistake in a family's code, from its own file on."""
    cause = error.__cause__
    file = None if family is None else source_file(family)
    if cause is None or file is None:
        return
    frames = traceback.extract_tb(cause.__traceback__)
    first = next((place for place, frame in enumerate(frames) if frame.filename == file), len(frames))
    for line in traceback.format_list(frames[first:]):
        yield line.rstrip("\n")
