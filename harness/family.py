"""A family: a job, the generator of its input, and its two oracles. And how one is found by name or file.

The rules this module lives by:

- A family is a module: built-in ones stand under ``scenarios``, a user's own in any file. Nothing is to be
  registered or subclassed, so the shortest family is a short file.
- What a family lacks or has wrong is found when it is loaded and said in one line that names the file, the
  line and the member, before a thousand scenarios fail for that reason.
- A family reaches the world only through JobIO: the same ``job`` runs against the simulation's external
  systems, against files and on Spark.
- ``expected`` and ``oracle_sql`` are written apart from the engine and from each other; they get the records
  and nothing else.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import pkgutil
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, cast

import scenarios
from harness.history import Row
from harness.scenario import InputRecord, Parameter, RecordValue

if TYPE_CHECKING:
    from engine.environment import StreamExecutionEnvironment

Records: TypeAlias = Mapping[str, Sequence[InputRecord]]
"""By split, (timestamp, value) in the order of offsets."""
Rows: TypeAlias = Sequence[Row]
"""A multiset: the order does not count."""
Role: TypeAlias = Literal["source", "keyed", "sink"]

ROLES: Final = ("source", "keyed", "sink")


@dataclass(frozen=True, slots=True)
class Workload:
    """What a family draws for a scenario: its input, and the parameters that it was drawn with."""

    records: Mapping[str, Sequence[InputRecord]]
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    source_parallelism: int = 0
    """0 leaves it to the generator of scenarios."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What a run says of its own choices where the order of arrival decides the result."""

    late: Rows = ()
    order: Mapping[str, Sequence[RecordValue]] = field(default_factory=dict)
    """By key, the values in the order in which they arrived."""


NOTHING_DECLARED: Final = Declared()


class JobIO(Protocol):
    """The ends of a family's job, given by whatever runs it, with the scenario's parameters."""

    @property
    def source_parallelism(self) -> int:
        """How many source subtasks the scenario asks for."""

    @property
    def parallelism(self) -> int:
        """How many subtasks of keyed operators the scenario asks for; also the environment's default."""

    @property
    def sink_parallelism(self) -> int:
        """How many sink subtasks the scenario asks for."""

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """What the family drew in its workload."""

    def source(self, name: str) -> Any:
        """Return a replayable source over the scenario's splits, for ``env.from_source``."""

    def sink(self, name: str) -> Any:
        """Return an exactly-once sink for tuples, for ``add_sink`` or ``sink_to``."""


class Family(Protocol):
    """What a family's module holds."""

    @property
    def name(self) -> str:
        """How the command line and reports call it."""

    @property
    def generator_version(self) -> int:
        """Raised whenever the same seed begins to give other records."""

    @property
    def tasks(self) -> Mapping[str, Role]:
        """The job's vertices by name, and which parallelism of a scenario each takes."""

    @property
    def record_schema(self) -> str:
        """The value columns of the SQL view ``records``, as Spark DDL: "word STRING"."""

    @property
    def row_schema(self) -> str:
        """The columns of the output rows, as Spark DDL: "word STRING, count BIGINT"."""

    @property
    def oracle_sql(self) -> str:
        """Spark SQL that gives scenario_id and the columns of the rows that each scenario should commit.

        It reads the view records(scenario_id, split, offset, timestamp, and the value columns).
        """

    def generate(self, random: Random) -> Workload:
        """Draw splits of records; only ``random.random()`` is kept stable by Python, so only it is called."""

    def job(self, env: StreamExecutionEnvironment, io: JobIO) -> None:
        """Build the job."""

    def expected(self, records: Records, declared: Declared) -> Rows:
        """Return the rows that the records should give, in plain Python."""


class FamilyError(Exception):
    """A family that cannot be loaded; the message is one line that says where and what is wrong."""


# Each member a family needs, with the test that its value passes and the words for what is asked.
_MEMBERS: Final[dict[str, tuple[Callable[[Any], object], str]]] = {
    "name": (lambda value: isinstance(value, str) and value, "a string"),
    "generator_version": (lambda value: type(value) is int and value >= 1, "a whole number of 1 or more"),
    "tasks": (
        lambda value: isinstance(value, Mapping) and value and all(role in ROLES for role in value.values()),
        "a mapping from each vertex's name to 'source', 'keyed' or 'sink'",
    ),
    "record_schema": (lambda value: isinstance(value, str) and value, "Spark DDL, as in 'word STRING'"),
    "row_schema": (lambda value: isinstance(value, str) and value, "Spark DDL, as in 'word STRING'"),
    "oracle_sql": (lambda value: isinstance(value, str) and value, "a Spark SQL query"),
    "generate": (callable, "a function generate(random)"),
    "job": (callable, "a function job(env, io)"),
    "expected": (callable, "a function expected(records, declared)"),
}


def family_names() -> list[str]:
    """Return the names of the built-in families."""
    modules = pkgutil.iter_modules(scenarios.__path__)
    return sorted(module.name for module in modules if not module.name.startswith("_"))


def load_family(name_or_path: str) -> Family:
    """Return a built-in family by name, or the family in a user's file; FamilyError if there is none."""
    path = Path(name_or_path)
    if path.suffix == ".py" or path.name != name_or_path:
        return _from_file(path)
    names = family_names()
    if name_or_path not in names:
        near = difflib.get_close_matches(name_or_path, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}, or give a file.py"
        raise FamilyError(f"unknown family {name_or_path!r}: {hint}")
    return _checked(importlib.import_module(f"scenarios.{name_or_path}"), f"family {name_or_path}")


def _from_file(path: Path) -> Family:
    """Run a user's file as a module of its own and return it as a family."""
    if not path.is_file():
        raise FamilyError(f"{path}: no such file")
    module_name = f"onceproof_family_{path.stem}"
    specification = importlib.util.spec_from_file_location(module_name, path)
    if specification is None or specification.loader is None:
        raise FamilyError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(specification)
    # Dataclasses look their module up here while the file still runs.
    sys.modules[module_name] = module
    try:
        specification.loader.exec_module(module)
    except Exception as error:
        del sys.modules[module_name]
        line = _line_in(specification.origin, error)
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        raise FamilyError(f"{path}:{line}: {type(error).__name__}: {' '.join(said.split())}") from error
    return _checked(module, str(path))


def _line_in(origin: str | None, error: Exception) -> int:
    """Return the line of the file at which an error was raised or found, the deepest one of that file."""
    if isinstance(error, SyntaxError) and error.filename == origin:
        return error.lineno or 1
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno or 1 for frame in reversed(frames) if frame.filename == origin), 1)


def _checked(module: ModuleType, place: str) -> Family:
    """Return the module as a family once every member is there and of the right kind."""
    for member, (fits, asked) in _MEMBERS.items():
        if not hasattr(module, member):
            raise FamilyError(f"{place}: a family needs {member!r}, {asked}; it is missing")
        value = getattr(module, member)
        if not fits(value):
            raise FamilyError(f"{place}: {member!r} must be {asked}, not {value!r}")
    return cast(Family, module)
