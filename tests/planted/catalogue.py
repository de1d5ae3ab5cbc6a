"""The catalogue of planted bugs: the proof that the harness would find a real one.

Rules:

- A planted bug is one that a real engine had or could have; its origin names the issue, if there is one. It
  never raises an exception only to be found: the checkers must find its consequences.
- Each names the guarantee that it breaks. One that no scenario kills shows a gap in the harness.
- Planted bugs wrap the engine's methods instead of copying them, so they follow changes of the engine.
- ``bugs/`` has one module for each theme, which imports nothing of the tests: other processes load it by its
  file, as they load a user's mutants. So does ``sql_bugs/``, whose bugs name the scripts that find them.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final, TypedDict

from onceproof.harness.model.mutants import Mutant, MutantError, mutants_of
from onceproof.harness.model.mutants.loading import mutant_of

FOLDER: Final = Path(__file__).with_name("bugs")
THEMES: Final = (
    "alignment",
    "tasks",
    "completion",
    "recovery",
    "masters",
    "waiting",
    "clocks",
    "storage",
    "late_puts",
    "databases",
    "durability",
    "redistribution",
    "unions",
    "windows",
    "in_flight",
    "edges",
    "connected",
    "sources",
    "endless",
    "state",
    "sharing",
    "retention",
    "savepoints",
    "timers",
    "keys",
    "batch",
    "matching_flink",
    "boundaries",
    "sinks",
    "other_sinks",
    "object_sinks",
    "prepared_transactions",
    "kafka_transactions",
    "requests",
    "rich_functions",
    "user_functions",
    "repeated_recoveries",
    "ends_of_subtasks",
    "ends_of_jobs",
    "incomplete_success",
    "late_answers",
    "late_messages",
    "restored_windows",
    "restored_state",
    "starting_points",
    "barriers_and_notices",
    "due_times",
    "answers_and_watermarks",
    "open_transactions",
    "positions",
    "files_of_databases",
    "pending_and_restored",
    "times_and_targets",
    "restarts_and_sweeps",
    "splits_and_windows",
    "upgrades",
    "settings",
    "calls",
    "joins_and_stops",
    "merges_and_closes",
    "orders_and_names",
    "copies_and_ends",
)
"""In the order in which the bugs are measured."""
SQL_THEMES: Final = ("aggregates", "windows", "joins", "ranks", "changes")


class BugOptions(TypedDict):
    """The options with which a system of real processes plants a bug."""

    mutant: str
    mutant_file: str


@cache
def built_in_mutants() -> tuple[Mutant, ...]:
    """Return all planted bugs, by theme, each with the file of its theme; their ids differ."""
    return _mutants_in(FOLDER, THEMES)


@cache
def sql_mutants() -> tuple[Mutant, ...]:
    """Return the planted bugs in nodes of tables, which scripts find and no built-in family."""
    return _mutants_in(FOLDER.with_name("sql_bugs"), SQL_THEMES)


def _mutants_in(folder: Path, themes: Sequence[str]) -> tuple[Mutant, ...]:
    found: dict[str, Mutant] = {}
    for theme in themes:
        for each in mutants_of(importlib.import_module(f"tests.planted.{folder.name}.{theme}")):
            if each.id in found:
                raise MutantError(f"two mutants have the id {each.id!r}: an id names one")
            found[each.id] = replace(each, path=str(folder / f"{theme}.py"))
    return tuple(found.values())


def find_mutant(mutant_id: str) -> Mutant:
    """Return a planted bug by its id; MutantError if there is none."""
    return mutant_of(mutant_id, built_in_mutants())


def file_of(mutant_id: str) -> str:
    """Return the file of a planted bug, for processes that load it from there."""
    return str(find_mutant(mutant_id).path)


def with_bug(mutant_id: str) -> BugOptions:
    """Return the options with which a system plants a bug of the catalogue."""
    return {"mutant": mutant_id, "mutant_file": file_of(mutant_id)}
