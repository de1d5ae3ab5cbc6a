"""A family: a job, the generator of its input, and its two oracles. And how one is found by name or file.

The rules this module lives by:

- A family is a module: built-in ones stand under ``scenarios``, a user's own in any file. Nothing is to be
  registered or subclassed, so the shortest family is a short file. An object with the same members will do
  as well, where one file holds several. Of a package its modules are: ``nexmark_q5`` is ``nexmark/q5.py``.
- Every process finds a family by its address: a name, FILE.py, or FILE.py:OBJECT. Its file is imported as
  Python would import it: as a part of its package if it stands in one, and with the modules beside it.
- What a family lacks or has wrong is found when it is loaded and said in one line that names the file, the
  line and the member, before a thousand scenarios fail for that reason.
- A family reaches the world only through JobIO: the same ``job`` runs against the simulation's external
  systems, against files and on Spark.
- A family whose job writes by key (``io.upsert_sink``) says so: ``table_keys`` is the number of key columns,
  ``versions(records)`` gives all rows that each key may show, in an order that does not depend on arrival.
- A family whose state depends on when watermarks came names that state in ``arrival_states``; one whose job
  may go on from a savepoint on another backend has ``any_backend = True``.
- ``expected`` and ``oracle_sql`` are written apart from the engine and from each other; they get the records
  and, where the family ``declares``, the rows in which the run says what it chose.
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

from onceproof import scenarios
from onceproof.harness.model.history import Row
from onceproof.harness.model.scenario import InputRecord, Parameter

if TYPE_CHECKING:
    from onceproof.engine.api.environment import StreamExecutionEnvironment

Records: TypeAlias = Mapping[str, Sequence[InputRecord]]
"""By split, (timestamp, value) in the order of offsets."""
Rows: TypeAlias = Sequence[Row]
"""A multiset: the order does not count."""
Role: TypeAlias = Literal["source", "keyed", "sink"]
AtLeastOnce: TypeAlias = Literal["rows", "effects"]

ROLES: Final = ("source", "keyed", "sink")
FAMILY_MODULE: Final = "onceproof_family_"
"""How the names of modules begin that a user's file is imported as."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What a family draws for a scenario: its input, and the parameters that it was drawn with."""

    records: Mapping[str, Sequence[InputRecord]]
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    source_parallelism: int = 0
    """0 leaves it to the generator of scenarios."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What a run says of its own choices, where time or the order of arrival decides the result.

    It says so in its rows: that a record came too late, at which time one was seen, which two came together.
    A family whose ``declares`` is true gets them, checks that each choice was legitimate, and gives the rows
    that follow from the legitimate ones. One that was not is in no row that it gives, so it is a phantom.
    """

    rows: Rows = ()
    """What had become visible; a multiset like any rows."""
    is_whole: bool = True
    """Whether the run is over. Until then, what a run may still be holding back need not be there."""


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

    def write_ahead_sink(self, name: str) -> Any:
        """Return a sink for tuples that keeps them in checkpoints until they are sent, for ``add_sink``."""

    def committing_sink(self, name: str) -> Any:
        """Return a sink for tuples that is made of a writer and a committer, for ``sink_to``."""

    def upsert_sink(self, name: str, keys: int) -> Any:
        """Return a sink for tuples by their first ``keys`` columns, for ``add_sink`` or ``sink_to``."""


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
_BUILT_IN: Final = f"{scenarios.__name__}."

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


def declares(family: object) -> bool:
    """Return whether the rows of a family say what its run chose: it has ``declares = True``.

    Then ``expected`` gets what became visible, and ``oracle_sql`` may read it from the view ``declared``,
    which has scenario_id and the columns of ``row_schema``.
    """
    return bool(getattr(family, "declares", False))


def takes_any_backend(family: object) -> bool:
    """Return whether the job may go on from a savepoint on another backend.

    A family says so by ``any_backend = True``. Not every job may: one that changes a value of its state in
    place, without an update, counts on a backend that keeps objects.
    """
    return bool(getattr(family, "any_backend", False))


def arrival_states_of(family: object, parameters: Mapping[str, Parameter] | None = None) -> frozenset[str]:
    """Return the states whose content follows from when watermarks came, not only from how far they got.

    A family names them in ``arrival_states``, as snapshots do, or in a function of a workload's parameters,
    where they are such states in some workloads only. What a checkpoint holds of them is not compared with an
    undisturbed run, in which watermarks come at other moments.
    """
    states = getattr(family, "arrival_states", ())
    if callable(states):
        states = states(parameters or {})
    if isinstance(states, str) or not all(isinstance(state, str) for state in states):
        raise FamilyError(f"{states!r} in arrival_states: give the names of states, as in ('timer',)")
    return frozenset(states)


def at_least_once_of(family: object) -> AtLeastOnce | None:
    """Return what a family says of its rows where records may count twice after a failure; None: nothing.

    It has ``at_least_once = "rows"`` where only rows are repeated, and ``"effects"`` where a record that
    counts twice gives rows besides those that are expected. Either way none that is expected may be missing.
    """
    said = getattr(family, "at_least_once", None)
    if said not in (None, "rows", "effects"):
        raise FamilyError(f"{said!r} in at_least_once: say 'rows' or 'effects', or nothing")
    return said


def columns_of(schema: str) -> tuple[str, ...]:
    """The names of the columns in Spark DDL: "word STRING, pair STRUCT<a: INT, b: INT>"."""
    names, depth, start = [], 0, 0
    for index, character in enumerate(f"{schema},"):
        depth += (character in "<(") - (character in ">)")
        if character == "," and not depth:
            column = schema[start:index].strip()
            start = index + 1
            if column:
                quoted = column.startswith("`")
                names.append(column.split("`")[1] if quoted else column.split()[0].rstrip(":"))
    return tuple(names)


def has_streaming_query(family: object) -> bool:
    """Return whether a family has a version for Structured Streaming: ``streaming_query(records, io)``."""
    return callable(getattr(family, "streaming_query", None))


def table_keys_of(family: object) -> int:
    """Return by how many columns a family's sink writes; 0 where it does not write by key."""
    keys = getattr(family, "table_keys", 0)
    if type(keys) is not int or keys < 0:
        raise FamilyError(f"{keys!r} in table_keys: say how many columns are the key of a row")
    if bool(keys) != hasattr(family, "versions"):
        raise FamilyError("table_keys and versions(records) belong together: one of them is missing")
    return keys


def family_names() -> list[str]:
    """Return the names of the built-in families."""
    return sorted(_built_in_modules())


def _built_in_modules() -> dict[str, str]:
    """Return the module of each built-in family, by the family's name."""
    found = {}
    for module in pkgutil.iter_modules(scenarios.__path__, _BUILT_IN):
        inner = [module]
        if module.ispkg:
            package = importlib.import_module(module.name)
            inner = list(pkgutil.iter_modules(package.__path__, f"{module.name}."))
        found.update({_name_of(each.name): each.name for each in inner if "._" not in each.name})
    return found


def _name_of(module: str) -> str:
    """Return the name of the built-in family in a module."""
    return module.removeprefix(_BUILT_IN).replace(".", "_")


def load_family(address: str) -> Family:
    """Return a built-in family by name, or the one in a user's FILE.py or FILE.py:OBJECT.

    FamilyError if there is none.
    """
    path, attribute = split_address(address)
    if path is not None:
        return _from_file(path, attribute)
    modules = _built_in_modules()
    if address not in modules:
        names = sorted(modules)
        near = difflib.get_close_matches(address, names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}, or give a file.py"
        raise FamilyError(f"unknown family {address!r}: {hint}")
    return family_of(importlib.import_module(modules[address]), f"family {address}")


def split_address(address: str) -> tuple[Path | None, str]:
    """Return the file in an address and the name of the object in it; no file for a built-in family."""
    file, colon, attribute = address.rpartition(":")
    if colon and file.endswith(".py"):
        return Path(file), attribute
    path = Path(address)
    return (path if path.suffix == ".py" or path.name != address else None), ""


def family_of(candidate: object, place: str) -> Family:
    """Return a module, an object or a class without arguments as a family; ``place`` is named in errors."""
    if isinstance(candidate, type):
        try:
            candidate = candidate()
        except TypeError as error:
            raise FamilyError(f"{place}: {error}; give an object of the class instead") from None
    for member, (fits, asked) in _MEMBERS.items():
        if not hasattr(candidate, member):
            raise FamilyError(f"{place}: a family needs {member!r}, {asked}; it is missing")
        value = getattr(candidate, member)
        if not fits(value):
            raise FamilyError(f"{place}: {member!r} must be {asked}, not {value!r}")
    return cast(Family, candidate)


def address_of(family: Family) -> str:
    """Return by which address another process finds a family; FamilyError where it finds it by none."""
    if isinstance(family, ModuleType):
        if family.__name__.startswith(_BUILT_IN):
            return _name_of(family.__name__)
        file = vars(family).get("__file__")
        if file is None:
            raise FamilyError(f"family {family.name!r}: its module has no file that another process can load")
        return str(file)
    for wanted in (family, type(family)) if _has_no_state(family) else (family,):
        place = _place_in_a_module(wanted, type(family).__module__)
        if place is not None:
            return place
    raise FamilyError(
        f"family {family.name!r} is an object that no module holds under a name, so no other process can find"
        " it: assign it to a name at the top of a module"
    )


def _place_in_a_module(wanted: object, likeliest: str) -> str | None:
    """Return FILE.py:NAME of an object that a module holds; the module where its class stands goes first."""
    modules: list[object] = [module for name, module in sys.modules.items() if name != likeliest]
    for module in (sys.modules.get(likeliest), *modules):
        path = vars(module).get("__file__") if isinstance(module, ModuleType) else None
        if path is not None and path.endswith(".py"):
            for attribute, value in vars(module).items():
                if value is wanted:
                    return f"{path}:{attribute}"
    return None


def _has_no_state(family: Family) -> bool:
    """Return whether a new object of the family's class is as good as the family."""
    return not getattr(family, "__dict__", None) and not hasattr(type(family), "__slots__")


def source_file(family: Family) -> str | None:
    """Return the path of the file in which a family is written, as tracebacks name it."""
    module = family if isinstance(family, ModuleType) else sys.modules.get(type(family).__module__)
    return getattr(module, "__file__", None)


def _from_file(path: Path, attribute: str) -> Family:
    """Import a user's file and return it, or an object in it, as a family."""
    if not path.is_file():
        raise FamilyError(f"{path}: no such file")
    module = _module_of(path)
    if not attribute:
        return family_of(module, str(path))
    if not hasattr(module, attribute):
        near = difflib.get_close_matches(attribute, vars(module), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise FamilyError(f"{path}: it has no {attribute!r}{hint}")
    return family_of(getattr(module, attribute), f"{path}:{attribute}")


def _module_of(path: Path) -> ModuleType:
    """Import a user's file: as a part of its package if it stands in one, else as a module of its own."""
    name, folder = module_name_of(path)
    if str(folder) not in sys.path:
        # Last: a file of a user's must not stand in for a module of ours or of Python's.
        sys.path.append(str(folder))
    try:
        if "." in name and _is_found_at(name, path):
            return importlib.import_module(name)
        return _module_alone(path)
    except Exception as error:
        line = _line_in(path, error)
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        raise FamilyError(f"{path}:{line}: {type(error).__name__}: {' '.join(said.split())}") from error


def module_name_of(path: Path) -> tuple[str, Path]:
    """Return under which name Python imports a file, and the folder from which it does."""
    folder = path.absolute().parent
    parts = [path.stem]
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts), folder


def _is_found_at(name: str, path: Path) -> bool:
    """Return whether Python finds a module of that name in that file, and not somewhere else."""
    try:
        specification = importlib.util.find_spec(name)
    except ImportError:
        return False
    origin = None if specification is None else specification.origin
    return origin is not None and _is_same(origin, path)


def _module_alone(path: Path) -> ModuleType:
    module_name = f"{FAMILY_MODULE}{path.stem}"
    specification = importlib.util.spec_from_file_location(module_name, path)
    if specification is None or specification.loader is None:
        raise ImportError("not a Python file")
    module = importlib.util.module_from_spec(specification)
    # Dataclasses look their module up here while the file still runs.
    sys.modules[module_name] = module
    try:
        specification.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise
    return module


def _line_in(path: Path, error: Exception) -> int:
    """Return the line of the file at which an error was raised or found, the deepest one of that file."""
    if isinstance(error, SyntaxError) and error.filename and _is_same(error.filename, path):
        return error.lineno or 1
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno or 1 for frame in reversed(frames) if _is_same(frame.filename, path)), 1)


def _is_same(name: str, path: Path) -> bool:
    return Path(name).resolve() == path.resolve()
