"""What the scenarios never run of the engine, read from the data of coverage.py.

Rules:

- A gap belongs to a function and is named by text, never by a line number, so edits elsewhere keep it:
  NEVER_RUNS, NEVER_BEFORE_A_FAULT, or a branch, such as ``never: if self._closed:``.
- A function that never runs has that one gap, and none for its branches.
- A branch is one way on from an `if`, `while`, `for` or `case`; or an `except` that catches nothing.
- Code without statements (`...` of a protocol) and blocks for type checkers are no gaps.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import coverage

from tests.reach.part import ENGINE, FOLLOWED, settings

NEVER_RUNS: Final = "never runs"
NEVER_BEFORE_A_FAULT: Final = "never runs before a fault"


class Gap(NamedTuple):
    """Something of a function that scenarios never do."""

    path: str
    """Below the folder of the engine, such as ``task/task.py``."""
    function: str
    """The qualified name."""
    what: str


class Missing(NamedTuple):
    """At least how much of a function a gap leaves out: an `else` and an `except` are not counted."""

    lines: int = 0
    branches: int = 0


@dataclass(frozen=True, slots=True)
class Share:
    """How much of a package was run."""

    lines: int
    lines_run: int
    branches: int
    branches_run: int
    functions: int
    functions_run: int


@dataclass(frozen=True, slots=True)
class Reach:
    """What the scenarios did and did not run."""

    gaps: Mapping[Gap, Missing]
    functions: Mapping[str, Sequence[str]]
    """The functions of each file that have statements."""
    shares: Mapping[str, Share]
    """By package."""


def read_reach(files: Sequence[Path]) -> Reach:
    """Return what the data of the parts of a run says, taken together."""
    with TemporaryDirectory() as folder:
        combined = coverage.Coverage(data_file=str(Path(folder) / "combined"), **settings())
        combined.combine([str(file) for file in files], keep=True)
        everything = _report(combined, Path(folder), None)
        followed = _report(combined, Path(folder), [FOLLOWED])
    gaps: dict[Gap, Missing] = {}
    functions = {}
    for path, file in everything.items():
        module = Module(ENGINE / path)
        functions[path] = [name for name, part in file["functions"].items() if _has_statements(name, part)]
        for name in functions[path]:
            before = followed[path]["functions"][name]
            missing = gaps_of(file["functions"][name], before, module)
            gaps.update({Gap(path, name, what): left_out for what, left_out in missing})
    packages = sorted({path.split("/")[0] for path in everything})
    return Reach(gaps, functions, {each: _share(each, everything) for each in packages})


def _report(combined: coverage.Coverage, folder: Path, contexts: list[str] | None) -> dict[str, Any]:
    combined.json_report(outfile=str(folder / "report.json"), contexts=contexts)
    files: dict[str, Any] = json.loads((folder / "report.json").read_text())["files"]
    return {Path(path).resolve().relative_to(ENGINE).as_posix(): each for path, each in files.items()}


def _has_statements(name: str, part: Mapping[str, Any]) -> bool:
    return bool(name) and part["summary"]["num_statements"] > 0


def _share(package: str, files: Mapping[str, Any]) -> Share:
    own = [each for path, each in files.items() if path.startswith(f"{package}/")]
    functions = [
        part for each in own for name, part in each["functions"].items() if _has_statements(name, part)
    ]

    def total(figure: str) -> int:
        return sum(each["summary"][figure] for each in own)

    return Share(
        lines=total("num_statements"),
        lines_run=total("covered_lines"),
        branches=total("num_branches"),
        branches_run=total("covered_branches"),
        functions=len(functions),
        functions_run=sum(bool(part["executed_lines"]) for part in functions),
    )


def gaps_of(
    part: Mapping[str, Any], followed: Mapping[str, Any], module: Module
) -> Iterator[tuple[str, Missing]]:
    """Yield the gaps of one function, from what ran of it, and what ran of it before a fault."""
    run, missing = set(part["executed_lines"]), set(part["missing_lines"])
    if not run:
        yield NEVER_RUNS, Missing(len(missing), len(part["missing_branches"]))
        return
    if not followed["executed_lines"]:
        yield NEVER_BEFORE_A_FAULT, Missing()
    starts = [start for start, _ in part["missing_branches"]]
    for start, end in part["missing_branches"]:
        # What stands in a block that never runs is a part of that gap.
        if start in run:
            within = missing.intersection(module.block(start, end))
            branches = 1 + sum(each in within for each in starts)
            yield module.branch(start, end), Missing(len(within), branches)
    for line in missing & module.handlers.keys():
        if module.handlers[line] & run:
            yield f"never: {module.text(line)}", Missing()


class Module:
    """The text and the syntax of a module, by line."""

    def __init__(self, path: Path) -> None:
        self._source = path.read_text(encoding="utf-8")
        self._lines = self._source.splitlines()

    @cached_property
    def _bodies(self) -> Mapping[int, range]:
        """The lines to which each condition, loop and case leads if it holds."""
        found = {}
        for node in ast.walk(ast.parse(self._source)):
            match node:
                case ast.If() | ast.While() | ast.For():
                    found[node.lineno] = range(node.body[0].lineno, (node.body[-1].end_lineno or 0) + 1)
                case ast.match_case():
                    first = node.body[0].lineno
                    found[node.pattern.lineno] = range(first, (node.body[-1].end_lineno or 0) + 1)
        return found

    @cached_property
    def handlers(self) -> Mapping[int, frozenset[int]]:
        """The lines of the block that each `except` guards, by the line of the `except`."""
        return {
            handler.lineno: frozenset(range(node.body[0].lineno, (node.body[-1].end_lineno or 0) + 1))
            for node in ast.walk(ast.parse(self._source))
            if isinstance(node, ast.Try)
            for handler in node.handlers
        }

    def text(self, line: int) -> str:
        """Return the text of a line without its indentation and comment."""
        return self._lines[line - 1].partition("  #")[0].strip()

    def block(self, start: int, end: int) -> range:
        """Return the lines of the block to which a way leads from a line; none, if it leads past it."""
        body = self._bodies.get(start, range(0))
        return body if end in body else range(0)

    def branch(self, start: int, end: int) -> str:
        """Return the name of a way that no scenario takes from a line."""
        body = self._bodies.get(start)
        if body is None:
            return f"never on from: {self.text(start)}"
        return f"{'never' if end in body else 'always'}: {self.text(start)}"
