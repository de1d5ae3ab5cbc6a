"""Mutants by id or by file: the built-in modules, and a user's own files.

An error in a file is reported in one line with the file and, where there is one, the line in it.
"""

from __future__ import annotations

import difflib
import importlib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from onceproof.harness.model.mutants.registry import Mutant, MutantError, mutants_of
from onceproof.harness.model.user_file import error_line, import_alone

MUTANTS_MODULE: Final = "onceproof_mutants_"
"""Prefix of the names of the modules that hold a user's mutants."""
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
)


@cache
def built_in_mutants() -> tuple[Mutant, ...]:
    """Return the mutants that come with onceproof, by theme; their ids differ."""
    found: dict[str, Mutant] = {}
    for theme in THEMES:
        for each in mutants_of(importlib.import_module(f"onceproof.harness.mutants.{theme}")):
            if each.id in found:
                raise MutantError(f"two mutants have the id {each.id!r}: an id names one")
            found[each.id] = each
    return tuple(found.values())


def load_mutants(path: str | Path) -> tuple[Mutant, ...]:
    """Return the mutants in a file; MutantError if it cannot be run, or holds none."""
    path = Path(path)
    if not path.is_file():
        raise MutantError(f"{path}: no such file")
    try:
        module = import_alone(path, MUTANTS_MODULE)
        found = mutants_of(module)
    except Exception as error:
        raise MutantError(error_line(path, error, MutantError)) from error
    if not found:
        raise MutantError(f"{path}: holds no mutant: decorate a function with onceproof.mutant")
    return tuple([replace(each, path=str(path)) for each in found])


def find_mutant(mutant_id: str, path: str | None = None) -> Mutant:
    """Return a mutant by its id, from a file or from the built-in ones; MutantError if there is none."""
    mutants = built_in_mutants() if path is None else load_mutants(path)
    for each in mutants:
        if each.id == mutant_id:
            return each
    near = difflib.get_close_matches(mutant_id, [each.id for each in mutants], n=1)
    hint = f"did you mean {near[0]}?" if near else "`onceproof mutants` lists them"
    raise MutantError(f"unknown mutant {mutant_id!r}: {hint}")
