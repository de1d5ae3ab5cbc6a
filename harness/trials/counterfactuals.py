"""The cause of a failure in the user's job, confirmed by runs of the job in which one thing is different.

Rules:

- Only a user's own job is searched. What a built-in family shows is the engine's.
- Each run gets a fresh copy of the user's module, so that no run sees what another left in a global.
- First what functions keep outside Flink state is carried over a restore; then single lines are edited
  (``explanation/edits.py``).
- A cause is confirmed if the job then passes the failing scenario, the one that it was shrunk from, and
  scenarios of other seeds. If edits of several lines pass all of them, none is asserted.
- The family is judged by its own oracle in every run: an edit reaches the job only.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

from onceproof.harness.checkers import CONTINUATIONS
from onceproof.harness.checkers.checker import Signature
from onceproof.harness.checkers.determinism import PROPERTY as DETERMINISM
from onceproof.harness.explanation.cause import ConfirmedCause
from onceproof.harness.explanation.edits import Edit, edits_of
from onceproof.harness.model.family import Family, FamilyError
from onceproof.harness.model.family_places import address_of, split_address
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.scripts.script_family import ScriptFamily
from onceproof.harness.systems.simulation.outside_state import OutsideState, Place
from onceproof.harness.trials.trial import scenario_of, try_scenario

OTHER_SCENARIOS: Final = 20
"""The scenarios of other seeds that a job must pass with an edit."""
MOST_RUNS: Final = 2000
"""After so many runs for one failure nothing is asserted."""
JUDGING: Final = (
    "generate",
    "expected",
    "versions",
    "answers",
    "tasks_with",
    "simpler_parameters",
    "with_key",
)
"""The functions by which a family is judged."""


class _WithJob:
    """A family whose job is that of a copy of its module."""

    def __init__(self, family: Family, job: Any) -> None:
        self._family = family
        self.job = job

    def __getattr__(self, name: str) -> Any:
        return getattr(self._family, name)


class _Traced(ast.NodeTransformer):
    """Puts a call before each statement of each function, with the line of the statement.

    A trace function of Python would be lost where a debugger or a measurement of coverage sets its own.
    """

    def __init__(self) -> None:
        self._is_in_function = False

    def generic_visit(self, node: ast.AST) -> ast.AST:
        before = self._is_in_function
        self._is_in_function |= isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        super().generic_visit(node)
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if self._is_in_function and isinstance(statements, list):
                traced = [each for statement in statements for each in (_executed(statement), statement)]
                setattr(node, field, traced)
        self._is_in_function = before
        return node


def _executed(statement: ast.stmt) -> ast.stmt:
    [call] = ast.parse(f"__executed__({statement.lineno})").body
    return ast.copy_location(call, statement)


@dataclass(frozen=True, slots=True)
class JobSource:
    """The module of a user's family, which can be made again."""

    family: Family
    module: ModuleType
    attribute: str
    file: str
    tree: ast.Module

    @classmethod
    def of(cls, family: Family) -> JobSource | None:
        """Return the source of a family; None if it is a built-in one, or has no file of Python."""
        try:
            path, attribute = split_address(address_of(family))
        except FamilyError:
            return None
        if path is None or path.suffix != ".py":
            return None
        if isinstance(family, ScriptFamily):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            return cls(family, sys.modules[family.module_name], "", str(path), tree)
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if file is None or Path(file) != path:
                continue
            held = getattr(module, attribute, None) if attribute else module
            if held is family or isinstance(family, held if isinstance(held, type) else ()):
                tree = ast.parse(path.read_text(encoding="utf-8"))
                return cls(family, module, attribute, file, tree)
        return None

    def _traced(self, watch: OutsideState) -> ast.Module:
        """Return the syntax tree, one that reports each line where the watch wants to know it."""
        if not watch.is_traced:
            return self.tree
        tree: ast.Module = ast.fix_missing_locations(_Traced().visit(deepcopy(self.tree)))
        return tree

    @contextmanager
    def copied(self, edit: Edit | None, watch: OutsideState) -> Iterator[Family]:
        """Give the family a fresh job inside the ``with`` block, with an edit, under a watch."""
        if isinstance(self.family, ScriptFamily):
            names = {"open": watch.open, "__executed__": watch.executed}
            with nullcontext() if edit is None else edit.applied():
                twin = self.family.edited(self._traced(watch), names)
            yield cast(Family, _WithJob(self.family, twin.job))
            return
        name = self.module.__name__
        fresh = ModuleType(name)
        fresh.__file__ = self.file
        fresh.__package__ = self.module.__package__
        fresh.__dict__["open"] = watch.open
        fresh.__dict__["__executed__"] = watch.executed
        tree = self._traced(watch)
        with nullcontext() if edit is None else edit.applied():
            code = compile(tree, self.file, "exec")
        sys.modules[name] = fresh
        try:
            exec(code, fresh.__dict__)
            owner = getattr(fresh, self.attribute) if self.attribute else fresh
            if isinstance(owner, type):
                owner = owner()
            yield cast(Family, _WithJob(self.family, owner.job))
        finally:
            sys.modules[name] = self.module


def confirmed_cause(
    family: Family, scenario: Scenario, signature: Signature, original: Scenario
) -> ConfirmedCause | None:
    """Return the cause of a failure in the user's job; None if no counterfactual run confirms one.

    Args:
        scenario: the failing scenario, shrunk.
        signature: how it fails.
        original: the scenario from which it was shrunk.
    """
    source = JobSource.of(family)
    return None if source is None else _Search(source, scenario, signature, original).cause()


def _ignore(_: object) -> None:
    """Ignore an exception that Python ignores."""


class _Search:
    """The runs of one failure."""

    def __init__(
        self, source: JobSource, scenario: Scenario, signature: Signature, original: Scenario
    ) -> None:
        self._source = source
        self._scenarios = [scenario] if scenario == original else [scenario, original]
        self._twice = signature[0] == DETERMINISM
        self._continued = signature[0] in CONTINUATIONS
        self._others: list[Scenario] = []
        self._runs_each = 1
        self._runs = 0
        self._files: Mapping[str, Place] = {}

    def cause(self) -> ConfirmedCause | None:
        """Return the confirmed cause."""
        watch = self._watch((), traced=True)
        is_passed = self._passes(self._scenarios[0], watch)
        self._files = watch.files
        if is_passed or self._files:
            # The functions have changed what outlives a run: a global, or a file.
            self._runs_each = 2
            watch = self._watch((), traced=True)
            if self._passes(self._scenarios[0], watch):
                return None
        return self._outside_cause(watch) or self._edited_cause(watch)

    def _watch(self, carried: Collection[Place], *, traced: bool = False) -> OutsideState:
        inputs = Path(self._source.file).absolute().parent
        modules = [self._source.module.__name__]
        return OutsideState(modules, inputs, carried, self._files, is_traced=traced)

    def _passes(self, scenario: Scenario, watch: OutsideState, edit: Edit | None = None) -> bool:
        try:
            # What an edit has left half made may complain when it is collected.
            with replaced(sys, "unraisablehook", _ignore), self._source.copied(edit, watch) as family:
                for _ in range(self._runs_each):
                    self._runs += 1
                    with watch.watching():
                        trial = try_scenario(family, scenario, twice=self._twice, continued=self._continued)
                    if not trial.verdict.passed:
                        return False
        except Exception:  # An edited job may raise anything.
            return False
        return True

    # What is kept outside Flink state.

    def _outside_cause(self, watch: OutsideState) -> ConfirmedCause | None:
        places = [place for place in watch.changed if not self._is_in_snapshots(place)]
        if not places or not self._passes_with(places):
            return None
        for place in list(places):
            fewer = [each for each in places if each != place]
            if fewer and self._passes_with(fewer):
                places = fewer
        names = " and ".join(f"`{place.name}`" for place in places)
        first = places[0]
        line = watch.changed[first]
        if not line:
            return None
        return ConfirmedCause(
            first.operator,
            f"{first.owner} keeps {names} outside Flink state, where no restore sets it back",
            self._source.file,
            line,
            f"with {names} carried over from the checkpoint",
        )

    def _is_in_snapshots(self, place: Place) -> bool:
        """Return whether a class mentions its attribute in snapshot_state: then it is state."""
        attribute = place.name.removeprefix("self.")
        return any(
            isinstance(part, ast.Attribute) and part.attr == attribute
            for node in ast.walk(self._source.tree)
            if isinstance(node, ast.ClassDef) and node.name == place.owner
            for method in node.body
            if isinstance(method, ast.FunctionDef) and method.name == "snapshot_state"
            for part in ast.walk(method)
        )

    def _passes_with(self, places: Collection[Place]) -> bool:
        return all(self._passes(each, self._watch(places)) for each in self._scenarios)

    # Lines.

    def _edited_cause(self, watch: OutsideState) -> ConfirmedCause | None:
        for edits in edits_of(self._source.tree, watch.lines, JUDGING):
            helping: dict[int, Edit] = {}
            for edit in edits:
                if edit.line not in helping and self._helps(edit):
                    helping[edit.line] = edit
                if self._runs > MOST_RUNS:
                    return None
            if helping:
                break
        if len(helping) != 1:
            return None
        [edit] = helping.values()
        return ConfirmedCause(edit.owner, edit.what, self._source.file, edit.line, edit.counterfactual)

    def _helps(self, edit: Edit) -> bool:
        """Return whether the job passes with an edit: the failing scenarios, and those of other seeds."""
        if not all(self._passes(each, self._watch(()), edit) for each in self._scenarios):
            return False
        for number in range(OTHER_SCENARIOS):
            if number == len(self._others):
                seed = scenario_seed(0, self._source.family.name, number)
                self._others.append(scenario_of(self._source.family, seed))
            if not self._passes(self._others[number], self._watch(()), edit):
                return False
        return True
