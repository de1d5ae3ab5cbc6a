"""A family: a job, the generator of its input, and its two oracles.

The rules this module lives by:

- A family is a module, or an object or a class with the same members (`family_places.py` finds it).
- What only some families have stands in one value, ``options``, a ``FamilyOptions``.
- Missing, wrong and misspelt members are found when the family is loaded. The error is one line that names
  the file, the line, the member and the nearest name, before a thousand scenarios fail for that reason.
- A family reaches the world only through JobIO: the same ``job`` runs against the simulation's external
  systems, against files and on Spark.
- ``expected`` and ``oracle_sql`` are written apart from the engine and from each other. They get the records
  and, where the options say ``declares``, the rows in which the run declares what it chose.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from inspect import getattr_static
from random import Random
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, cast, get_args

from onceproof.harness.model.columns import OrderedBy, columns_of, is_tolerance, wrong_comparison
from onceproof.harness.model.history import Cut, Row
from onceproof.harness.model.job_io import JobIO as JobIO
from onceproof.harness.model.job_settings import Barriers
from onceproof.harness.model.scenario import InputRecord, Parameter, RecordValue, Scenario
from onceproof.harness.model.system_homes import HOMES

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment

Records: TypeAlias = Mapping[str, Sequence[InputRecord]]
"""By split, (timestamp, value) in the order of offsets."""
Rows: TypeAlias = Sequence[Row]
"""A multiset: the order does not count."""
Role: TypeAlias = Literal["source", "keyed", "sink"]
Vertices: TypeAlias = Mapping[str, Role | int]
"""The vertices of a job by name: whose parallelism each takes, or its own."""
AtLeastOnce: TypeAlias = Literal["rows", "effects"]

POSTGRES: Final = "postgres"
KAFKA: Final = "kafka"
S3: Final = "s3"
"""The names of the servers that families may need."""
ROLES: Final = ("source", "keyed", "sink")
FAMILY_MODULE: Final = "onceproof_family_"
"""Prefix of the names of the modules that hold a user's families."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What a family draws for a scenario: its input, and the parameters that it was drawn with."""

    records: Mapping[str, Sequence[InputRecord]]
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    source_parallelism: int = 0
    """0 leaves it to the generator of scenarios."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What the rows of a run declare of its choices, such as which records were late or which two met.

    ``expected`` checks that each choice was legitimate, and returns the rows that follow from the legitimate
    ones. A row that follows from no legitimate choice is not among them, so it is reported as a phantom.
    """

    rows: Rows = ()
    """The rows that had become visible; a multiset like any rows."""
    is_whole: bool = True
    """Whether the run is over. At a cut, rows that a run may still hold back need not be there."""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    """What the family drew beside the records; a family whose job depends on it reads it here."""
    set_by_ms: int = 0
    """By how much the scenario sets the wall clock in all, so that much time may pass between two records."""
    has_restored: bool = False
    """Whether the run has been restored, so that operators may have forgotten their watermarks."""
    has_in_flight: bool = False
    """Whether a checkpoint may have held records in flight, from which it was restored."""
    rested_at: Cut | None = None
    """What the state covers that had just been restored when the clock was set, for the only time; None: it
    was not set then, or what was read before is read again."""
    upgraded_at: Cut | None = None
    """What the state covers from which the new version of the job began; None: it has not begun."""
    scenario: Scenario | None = None
    """The scenario that ran, if the new version of the job has begun in it."""
    starts_at_ms: int = 0
    """What the wall clock shows when the job starts for the first time."""

    @property
    def sets_clocks(self) -> bool:
        """Whether the scenario sets the wall clock."""
        return self.set_by_ms > 0

    def so_far(self, rows: Rows) -> Rows:
        """Return the rows that must be there now: all at the end, at a cut those that are visible."""
        return rows if self.is_whole else list((Counter(rows) & Counter(self.rows)).elements())


NOTHING_DECLARED: Final = Declared()


class Family(Protocol):
    """What a family's module holds."""

    @property
    def name(self) -> str:
        """How the command line and reports call it."""

    @property
    def generator_version(self) -> int:
        """Raised whenever the same seed begins to give other records."""

    @property
    def tasks(self) -> Vertices:
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


class _OptionsByName(type):
    """Makes options: refuses names that are no options, and takes those of earlier versions as ``jobs``."""

    def __call__(cls, **given: Any) -> Any:
        for name in given.keys() - _OPTIONS.keys() - _EARLIER.keys():
            near = nearest(name, _OPTIONS) or f"; there are {', '.join(_OPTIONS)}"
            raise FamilyError(f"FamilyOptions has no option {name!r}{near}")
        earlier = {_EARLIER[name]: given.pop(name) for name in _EARLIER if name in given}
        if earlier:
            given["jobs"] = {**earlier, **given.get("jobs", {})}
        return super().__call__(**given)


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyOptions(metaclass=_OptionsByName):
    """What only some families have or promise; a family holds it under the name ``options``.

    All options are optional and given by name. An unknown one is a FamilyError with the nearest name.
    """

    declares: bool = False
    """Whether rows declare what the run chose. Then ``expected`` gets the rows that became visible, and
    ``oracle_sql`` may read them from the view ``declared``: scenario_id and the columns of ``row_schema``."""
    late: str | Callable[[Row], bool] | None = None
    """The rows that declare a record late: a tag that is one of their cells, or a function of a row. It
    implies ``declares``. Only those of records that may be late reach ``expected``."""
    due: Callable[[Row, Records], int | None] | None = None
    """For ``late``: the watermark at which a row of an input is due, such as the end of its window less 1 ms,
    None if it does not wait. Without ``due`` a record is late when it is behind; with it when its late row is
    due, or for None all its other rows."""
    settles: bool = False
    """With ``declares``: whether ``expected`` itself says which rows follow from the order of arrival. Then
    no model of watermarks asks it for parts of the input, and the state of checkpoints is not compared."""
    fan_out: int = 1
    """By how much a scenario gets more time, where the job makes several records of one."""
    any_backend: bool = False
    """Whether a savepoint of the job may be restored on another state backend. A job that changes a value of
    its state in place, without an update, needs a backend that keeps objects, and so must not set it."""
    waits_ms: Sequence[int] = ()
    """How long state lives and timers wait in processing time: the clock is set forward by these in scenarios
    in which time passes."""
    rests_ms: int = 0
    """For how long a job rests in some scenarios when it has been restored; 0: in none."""
    needs_steady_time: bool = False
    """Whether the oracle holds only while processing time never goes back: no wall clock is set back."""
    arrival_states: Collection[str] | Callable[[Mapping[str, Parameter]], Collection[str]] = ()
    """Names, as snapshots have them, of the states whose content depends on when watermarks came; or a
    function that returns the names for the parameters of a workload. The checkpoints of an undisturbed run,
    in which watermarks come at other moments, are compared without these states."""
    tasks_with: Callable[[Mapping[str, Parameter]], Vertices] | None = None
    """``tasks_with(parameters)`` returns the ``tasks`` of a workload where the parameters decide which
    vertices the job has; a number stands for a vertex whose parallelism is its own. It raises ValueError,
    with one line, for parameters of a file that are none of the family's."""
    simpler_parameters: Callable[[Mapping[str, Parameter]], Iterable[Mapping[str, Parameter]]] | None = None
    """``simpler_parameters(parameters)`` yields parameters of simpler jobs for the same records, the simplest
    first; a failing scenario is shrunk by them. Each has fewer or shorter words than the given ones."""
    as_program: Callable[[Records, Mapping[str, Parameter]], str] | None = None
    """``as_program(records, parameters)`` returns a job that its parameters describe as a program's text."""
    at_least_once: AtLeastOnce | None = None
    """What happens to the rows where records may count twice after a failure. "rows": rows are repeated.
    "effects": a record that counts twice also gives rows that are not expected. Either way no expected row
    may be missing. None: the family is never run in that mode."""
    barriers: Barriers | None = None
    """How every scenario handles barriers; None: drawn. "at_least_once" needs the option of that name."""
    may_repeat: Callable[[Row], bool] | None = None
    """``may_repeat(row)`` says of which rows the job promises only at least once, such as those of one sink
    of several. They may come again after a failure. None: of no rows."""
    table_keys: int = 0
    """How many leading columns are the key by which ``io.upsert_sink`` writes; 0: the job writes no table."""
    versions: Callable[[Records], Rows] | None = None
    """For ``table_keys``: returns all rows that each key may show, in an order independent of arrival."""
    written_at_end: bool = False
    """For ``table_keys``: whether the job writes the table at the end of its input only. Then no row need be
    there before; a row that is there must be one of ``versions``, for the whole input."""
    tolerance: Mapping[str, float] = field(default_factory=dict)
    """By column, how far its numbers may be from the expected ones: by this much, or by this part of the
    number, whichever is more."""
    ordered_by: OrderedBy | None = None
    """In which order rows must appear; None: in any."""
    answers: Callable[[Row], Any] | None = None
    """``answers(row)`` returns what an attempt answers once at most, such as the key and start of a row's
    window; None for a row that may come any number of times."""
    jobs: Mapping[str, Callable[[Any, Any], Any]] = field(default_factory=dict)
    """By the name of a system, the function that builds the job for that engine: ``{"bytewax": flow_of}``.
    It gets the records and the ``io`` of that system, and returns rows, or what a sink of ``io`` returns. A
    job for Flink gets an environment and ``io``."""
    sends_batches: bool | Callable[[Mapping[str, Parameter]], bool] = False
    """Whether the job has a write-ahead sink, or a function that says so for the parameters of a workload.
    Then the target refuses several batches in a row in some scenarios."""
    calls_outside: bool = False
    """Whether sinks or sources of the user's own run, whose calls to the outside fail in some scenarios."""
    writes_files: bool = False
    """Whether all that the job writes are part files, in folders or an object store. In some scenarios a
    consumer then takes the visible ones away."""
    batch: bool | Callable[[Mapping[str, Parameter]], bool] = False
    """Whether the job runs in BATCH mode, or a function that says so for the parameters of a workload.
    Then its input always has an end."""
    servers: Collection[str] = ()
    """The real servers that the job needs in real processes, such as ("postgres",)."""
    with_key: Callable[[RecordValue, int], RecordValue] | None = None
    """``with_key(value, number)`` returns a record's value with the key of that number, 0 or more, instead of
    its own; an experiment of ``onceproof sensitivity`` sets the number of keys by it."""

    upgraded: Callable[[StreamExecutionEnvironment, JobIO], None] | None = None
    """``upgraded(env, io)`` builds the new version of the job, by which each scenario replaces it once. With
    ``declares``, ``expected`` finds in ``declared.upgraded_at`` at which cut."""

    def __post_init__(self) -> None:
        """Refuse values that do not fit."""
        for name, (fits, asked) in _OPTIONS.items():
            value = getattr(self, name)
            if not fits(value):
                raise FamilyError(f"{name!r} in FamilyOptions must be {asked}, not {value!r}")
        if self.late is not None:
            object.__setattr__(self, "declares", True)
        elif self.due is not None:
            raise FamilyError("due in FamilyOptions belongs to late rows: late is missing")
        if bool(self.table_keys) != (self.versions is not None):
            raise FamilyError("table_keys and versions belong together in FamilyOptions: one is missing")
        if self.barriers == "at_least_once" and self.at_least_once is None:
            raise FamilyError("barriers='at_least_once' in FamilyOptions needs the option at_least_once, too")
        if self.written_at_end and not self.table_keys:
            raise FamilyError("written_at_end in FamilyOptions belongs to a table: table_keys is missing")

    def wrong_columns(self, columns: Sequence[str]) -> Iterator[str]:
        """Yield what is wrong with the tolerance and the order of rows with some columns."""
        yield from wrong_comparison(columns, self.tolerance, self.ordered_by, self.table_keys, self.declares)

    def sends_batches_with(self, parameters: Mapping[str, Parameter]) -> bool:
        """Return ``sends_batches`` for the parameters of a workload."""
        return bool(self.sends_batches(parameters)) if callable(self.sends_batches) else self.sends_batches

    def in_batch_with(self, parameters: Mapping[str, Parameter]) -> bool:
        """Return ``batch`` for the parameters of a workload."""
        return bool(self.batch(parameters)) if callable(self.batch) else self.batch

    def is_late(self, row: Row) -> bool:
        """Return whether a row declares a record late."""
        return bool(self.late(row)) if callable(self.late) else self.late is not None and self.late in row

    @property
    def draws_graphs(self) -> bool:
        """Whether the graph of the job is drawn with its records."""
        return self.tasks_with is not None

    def arrival_states_with(self, parameters: Mapping[str, Parameter]) -> frozenset[str]:
        """Return the names in ``arrival_states`` for the parameters of a workload."""
        if not callable(self.arrival_states):
            return frozenset(self.arrival_states)
        states = self.arrival_states(parameters)
        if not _are_names(states):
            raise FamilyError(f"the function arrival_states must return {_STATE_NAMES}, not {states!r}")
        return frozenset(states)


def _are_names(value: Any) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and all(type(each) is str for each in value)
    )


def _is_role(value: Any) -> bool:
    return value in ROLES or (type(value) is int and value >= 1)


def _is_function_or_none(value: Any) -> bool:
    return value is None or callable(value)


_STATE_NAMES: Final = "the names of states, as in ('timer',)"
_Members: TypeAlias = Mapping[str, tuple[Callable[[Any], object], str]]
"""By name, the test that a value must pass and the words for what is asked."""

_OPTIONS: Final[_Members] = {
    "declares": (lambda value: type(value) is bool, "True or False"),
    "late": (
        lambda value: value is None or callable(value) or (type(value) is str and bool(value)),
        "the tag of late rows, or a function late(row)",
    ),
    "due": (_is_function_or_none, "a function due(row, records)"),
    "settles": (lambda value: type(value) is bool, "True or False"),
    "fan_out": (lambda value: type(value) is int and value >= 1, "a whole number of 1 or more"),
    "any_backend": (lambda value: type(value) is bool, "True or False"),
    "waits_ms": (
        lambda it: isinstance(it, Sequence) and all(type(each) is int and each > 0 for each in it),
        "numbers of milliseconds, as in (60_000,)",
    ),
    "rests_ms": (lambda value: type(value) is int and value >= 0, "a whole number of milliseconds"),
    "needs_steady_time": (lambda value: type(value) is bool, "True or False"),
    "arrival_states": (lambda value: callable(value) or _are_names(value), _STATE_NAMES),
    "at_least_once": (lambda value: value in (None, "rows", "effects"), "'rows', 'effects' or None"),
    "barriers": (
        lambda it: it in (None, *get_args(Barriers)),
        "'aligned', 'unaligned', 'at_least_once' or None",
    ),
    "tasks_with": (_is_function_or_none, "a function tasks_with(parameters)"),
    "simpler_parameters": (_is_function_or_none, "a function simpler_parameters(parameters)"),
    "as_program": (_is_function_or_none, "a function as_program(records, parameters)"),
    "sends_batches": (lambda value: type(value) is bool or callable(value), "True, False or a function"),
    "may_repeat": (_is_function_or_none, "a function may_repeat(row)"),
    "table_keys": (lambda value: type(value) is int and value >= 0, "the number of key columns"),
    "versions": (_is_function_or_none, "a function versions(records)"),
    "written_at_end": (lambda value: type(value) is bool, "True or False"),
    "tolerance": (
        lambda it: isinstance(it, Mapping) and _are_names([*it]) and all(map(is_tolerance, it.values())),
        "by column a number above 0 and below 1, as in {'mean': 1e-9}",
    ),
    "ordered_by": (lambda value: value is None or isinstance(value, OrderedBy), "OrderedBy(...) or None"),
    "answers": (_is_function_or_none, "a function answers(row)"),
    "jobs": (
        lambda it: isinstance(it, Mapping) and it.keys() <= HOMES.keys() and all(map(callable, it.values())),
        "functions by the names of systems, as in {'bytewax': flow_of}",
    ),
    "calls_outside": (lambda value: type(value) is bool, "True or False"),
    "writes_files": (lambda value: type(value) is bool, "True or False"),
    "batch": (lambda value: type(value) is bool or callable(value), "True, False or a function"),
    "servers": (
        lambda value: _are_names(value) and set(value) <= {POSTGRES, KAFKA, S3},
        f"some of {(POSTGRES, KAFKA, S3)}",
    ),
    "with_key": (_is_function_or_none, "a function with_key(value, number)"),
    "upgraded": (_is_function_or_none, "a function upgraded(env, io)"),
}
_EARLIER: Final = {"streaming_query": "structured_streaming", "bytewax_flow": "bytewax", "quix_app": "quix"}
"""By an option of earlier versions, the system in ``jobs`` that it stands for."""
NO_OPTIONS: Final = FamilyOptions()


_NAME: Final = re.compile(r"[^./\\][^/\\]{0,99}")
_MEMBERS: Final[_Members] = {
    "name": (
        lambda value: isinstance(value, str) and bool(_NAME.fullmatch(value)) and value.isprintable(),
        "a string of up to 100 printable characters that is no path: no / or \\, and no dot at its start",
    ),
    "generator_version": (lambda value: type(value) is int and value >= 1, "a whole number of 1 or more"),
    "tasks": (
        lambda value: isinstance(value, Mapping) and value and all(map(_is_role, value.values())),
        "a mapping from each vertex's name to 'source', 'keyed', 'sink' or its own parallelism",
    ),
    "record_schema": (lambda value: isinstance(value, str), "Spark DDL, as in 'word STRING'"),
    "row_schema": (lambda value: isinstance(value, str), "Spark DDL, as in 'word STRING'"),
    "oracle_sql": (lambda value: isinstance(value, str), "a Spark SQL query"),
    "generate": (callable, "a function generate(random)"),
    "job": (callable, "a function job(env, io)"),
    "expected": (callable, "a function expected(records, declared)"),
}


def options_of(family: object) -> FamilyOptions:
    """Return the options of a family; all defaults where it has none."""
    declared: Any = family
    return declared.options if hasattr(family, "options") else NO_OPTIONS


def tasks_with(family: Family, parameters: Mapping[str, Parameter]) -> Vertices:
    """Return the vertices of the job that a family builds for the parameters of a workload."""
    tasks_of = options_of(family).tasks_with
    return family.tasks if tasks_of is None else tasks_of(parameters)


def family_of(candidate: object, place: str) -> Family:
    """Return a module, an object or a class without arguments as a family.

    FamilyError where a member is missing, wrong or misspelt; it begins with ``place``.
    """
    if isinstance(candidate, type):
        try:
            candidate = candidate()
        except TypeError as error:
            raise FamilyError(f"{place}: {error}; give an object of the class instead") from None
    for member, (fits, asked) in _MEMBERS.items():
        if not hasattr(candidate, member):
            near = nearest(member, set(dir(candidate)) - set(_MEMBERS))
            raise FamilyError(f"{place}: a family needs {member!r}, {asked}; it is missing{near}")
        value = getattr(candidate, member)
        if not fits(value):
            raise FamilyError(f"{place}: {member!r} must be {asked}, not {value!r}")
    _check_options(candidate, place)
    return cast(Family, candidate)


def _check_options(family: object, place: str) -> None:
    """Raise FamilyError where a family's options are misspelt, of another type, or loose members."""
    values = {name: getattr_static(family, name) for name in dir(family) if not name.startswith("__")}
    if "options" not in values:
        plain = [name for name, value in values.items() if not callable(value)]
        named = [name for name in plain if isinstance(values[name], FamilyOptions)]
        for name in named or difflib.get_close_matches("options", plain, n=1, cutoff=0.8):
            raise FamilyError(f"{place}: a family's options are named 'options', not {name!r}")
    options = options_of(family)
    if not isinstance(options, FamilyOptions):
        raise FamilyError(f"{place}: 'options' must be FamilyOptions(...), not {options!r}")
    columns = columns_of(getattr(family, "row_schema", ""))
    for problem in options.wrong_columns(columns):
        raise FamilyError(f"{place}: {problem}")
    for option in fields(FamilyOptions):
        is_loose = option.name in values and getattr(options, option.name) == option.default
        is_function = _OPTIONS[option.name][0] is _is_function_or_none
        if is_loose and (not is_function or callable(values[option.name])):
            raise FamilyError(
                f"{place}: {option.name!r} is an option: write options = FamilyOptions({option.name}=...)"
            )


def nearest(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, sorted(names), n=1, cutoff=0.75)
    return f"; did you mean {near[0]}?" if near else ""


def source_file(family: Family) -> str | None:
    """Return the path of the file in which a family is written, as tracebacks name it."""
    if hasattr(family, "oracle_file"):
        # A program: what may be wrong in Python is its oracle.
        file: str | None = family.oracle_file
        return file
    module = family if isinstance(family, ModuleType) else sys.modules.get(type(family).__module__)
    return getattr(module, "__file__", None)
