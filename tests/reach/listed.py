"""The list of gaps with their reasons, ``unreached.toml``, and how it differs from a run.

Rules:

- Each group has a reason, and lists gaps by file and function. A group that has ``reached_by`` is a finding:
  its code belongs in the simulation, and the text says what would lead there.
- ``"*"`` stands for all functions of a file, where none of them runs.
- The list cannot rot: a gap that is not listed is a difference, and so is a listed one that is none.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.reach.gaps import NEVER_BEFORE_A_FAULT, NEVER_RUNS, Gap, Reach

LIST: Final = Path(__file__).with_name("unreached.toml")
ALL_FUNCTIONS: Final = "*"


class ListError(Exception):
    """The list is wrong; the text names the entry."""


@dataclass(frozen=True, slots=True)
class Group:
    """Gaps with one reason."""

    reason: str
    reached_by: str
    """What would reach a finding; "" for what has no place in the simulation."""
    gaps: tuple[Gap, ...]


def read_list(path: Path = LIST) -> Sequence[Group]:
    """Return the groups of the list."""
    groups = [_group(each) for each in tomllib.loads(path.read_text(encoding="utf-8"))["group"]]
    seen: set[Gap] = set()
    for group in groups:
        for gap in group.gaps:
            if gap in seen:
                raise ListError(f"{path.name}: {gap.path}: {gap.function}: {gap.what!r} is listed twice")
            seen.add(gap)
    return groups


def _group(table: Mapping[str, Any]) -> Group:
    whole = {"never_runs": NEVER_RUNS, "never_before_a_fault": NEVER_BEFORE_A_FAULT}
    gaps = [
        Gap(path, function, what)
        for key, what in whole.items()
        for path, functions in table.get(key, {}).items()
        for function in functions
    ]
    for path, functions in table.get("branches", {}).items():
        gaps.extend(Gap(path, function, what) for function, texts in functions.items() for what in texts)
    return Group(table["reason"], table.get("reached_by", ""), tuple(gaps))


def differences(groups: Sequence[Group], reach: Reach) -> Iterator[str]:
    """Yield a line for each gap that is not listed, and for each listed one that is none."""
    listed = {each for group in groups for gap in group.gaps for each in expanded(gap, reach)}
    for gap in sorted(reach.gaps.keys() - listed):
        yield f"{gap.path}: {gap.function}: {gap.what}; give the reason in tests/reach/{LIST.name}"
    for gap in sorted(listed - reach.gaps.keys()):
        yield f"{gap.path}: {gap.function}: no longer {gap.what!r}; remove it from tests/reach/{LIST.name}"


def expanded(gap: Gap, reach: Reach) -> Iterator[Gap]:
    """Yield a listed gap, or one for each function of its file."""
    if gap.function != ALL_FUNCTIONS:
        yield gap
        return
    for function in reach.functions.get(gap.path, ()) or (ALL_FUNCTIONS,):
        yield gap._replace(function=function)


def entries(gaps: Sequence[Gap], reach: Reach) -> Iterator[str]:
    """Yield lines of the list for some gaps, to be put below the reason of a group."""
    for key, what in (("never_runs", NEVER_RUNS), ("never_before_a_fault", NEVER_BEFORE_A_FAULT)):
        files: dict[str, list[str]] = {}
        for gap in sorted(gaps):
            if gap.what == what:
                files.setdefault(gap.path, []).append(gap.function)
        if files:
            yield f"[group.{key}]"
        for path, functions in files.items():
            if what == NEVER_RUNS and len(functions) == len(reach.functions[path]) > 1:
                functions = [ALL_FUNCTIONS]
            yield from _array(_quoted(path), functions)
    branches: dict[str, dict[str, list[str]]] = {}
    for gap in sorted(gaps):
        if gap.what not in (NEVER_RUNS, NEVER_BEFORE_A_FAULT):
            branches.setdefault(gap.path, {}).setdefault(gap.function, []).append(gap.what)
    for path, by_function in branches.items():
        yield f"[group.branches.{_quoted(path)}]"
        for function, texts in by_function.items():
            yield from _array(_quoted(function), texts)


def _array(key: str, values: Sequence[str]) -> Iterator[str]:
    line = f"{key} = [{', '.join(map(_quoted, values))}]"
    if len(line) <= 110:
        yield line
        return
    yield f"{key} = ["
    yield from [f"  {_quoted(each)}," for each in values]
    yield "]"


def _quoted(text: str) -> str:
    """Return a string of TOML; one with double quotes is a literal."""
    if '"' in text or "\\" in text:
        return f"'{text}'" if "'" not in text else f"'''{text}'''"
    return f'"{text}"'
