"""The Scenario: one fully decided case of a family, and its JSON, which is the proof of a failure.

The rules this module lives by:

- A scenario is a value. Everything that a run depends on stands in it, records included; while it runs, all
  random choices follow from its schedule's seed. So its JSON replays without the generator, on another
  machine, years later.
- Protocol points, fault kinds (`faults.py`) and action classes are closed lists.
- Every field of JSON input is checked: unknown fields, wrong types and contradictions are refused with one
  line that names the place. So a misspelt fault cannot become a scenario without faults.
- The format number is checked before anything else in the file, since only it means the same in every format.
- Records and faults are as many as a file holds; its other numbers could ask for any memory and time. So each
  has an upper bound, far above what the generator draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec
from msgspec.structs import replace

from onceproof.engine.outside_files import read_at_most
from onceproof.harness.model.fault_kinds import MARK, FaultKind, Means, Point, ServerName
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.job_settings import ALIGNED, CheckpointMode, Count, Positive, Restarts

FORMAT_VERSION: Final = 1

MOST_BYTES: Final = 64 << 20
"""The largest file of a scenario."""
MOST_SUBTASKS: Final = 64
"""The highest parallelism of an operator: each subtask has a channel to each subtask behind it."""
MOST_KEY_GROUPS: Final = 32768
"""The engine's highest maximum parallelism."""
MOST_FAULTS: Final = 1000
"""How many faults a scenario has, and how many operations."""
MOST_STEPS: Final = 2_000_000
"""The highest step budget and horizon of a scenario without records."""
STEPS_PER_RECORD: Final = 20_000
"""By how much each record raises it."""
MOST_MS: Final = 10**12
"""The longest duration and the highest count of anything else: 31 years in milliseconds."""
LATEST_START_MS: Final = 2**47
"""The latest date at which a scenario starts."""
TIMES: Final = (-(2**63), 2**63 - 1)
"""The first and last timestamp of a record."""

Scalar: TypeAlias = str | int | float | bool | None
RecordValue: TypeAlias = str | int | float | bool | tuple[Scalar, ...] | None
InputRecord: TypeAlias = tuple[int, RecordValue]
"""An event timestamp in milliseconds and a value; the engine's records have the two the other way round."""
Parameter: TypeAlias = str | int | float | bool

ActionClass: TypeAlias = Literal[
    "poll",
    "deliver",
    "restore",
    "message_trigger",
    "message_acknowledge",
    "message_notify",
    "message_control",
    "store",
    "metadata",
    "timer",
]
ScheduleKind: TypeAlias = Literal["fair", "uniform", "priority", "preemptions"]

OperationKind: TypeAlias = Literal["savepoint", "stop", "cancel", "terminate", "rescale", "upgrade"]
ENDS: Final[frozenset[OperationKind]] = frozenset({"stop", "cancel", "upgrade"})
"""Requests with which a job ends, and is started again."""
StateBackend: TypeAlias = Literal["hashmap", "rocksdb"]

ACTION_CLASSES: Final[tuple[ActionClass, ...]] = get_args(ActionClass)

COORDINATOR: Final = "coordinator"
ANY_TASK: Final = "*"


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A fault that strikes once, at a protocol point.

    The fault waits until its point has been passed ``occurrence`` times by a task that matches, for its
    checkpoint or a later one: another fault may keep the first from the point. It strikes ``after`` steps
    later, whichever task runs then.
    """

    kind: FaultKind
    point: Point
    task: str = ANY_TASK
    """A subtask ("count-1"), "coordinator", or "*" for any; of a message, its sender or receiver."""
    checkpoint: Count = 0
    """The first that it may strike; 0 matches any pass."""
    occurrence: Positive = 1
    after: Count = 0
    delay: Count = 0
    """Steps by which a message, its second copy, or the report of a late write, is held back.

    Of a kill in real processes: milliseconds from the point to the kill. Of a full or read-only disk: how
    many further calls are refused. Of a clock: by how many milliseconds it jumps. Of others: for how many."""
    rescale_to: Count = 0
    """Kills only: the parallelism of the attempts that follow; 0 keeps the current one."""
    means: Means = ""
    """One of the means in the row of the kind, or "" for the default."""
    server: ServerName = ""
    """Faults of servers only: which one it strikes."""
    mark: str = ""
    """At the point "mark" only: the name of the mark."""
    name: str = ""
    """Faults of a user's own only: its name in the file of the program."""


BEHIND_RESTORE: Final = Fault("clock_ahead", "restored", checkpoint=1)
"""The clock is set forward when a job has first been restored from a checkpoint, before it goes on."""


class Operation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request to the job, made once, at a protocol point; it waits for the point as a fault does.

    A savepoint is taken while the job runs on. A stop ends the job with a savepoint and starts it from there,
    at ``parallelism`` and on ``state_backend`` if given. A cancel does the same with a savepoint that commits
    nothing: what is prepared in it is left to the job that starts from it. A program is asked to
    terminate, and is started again. A rescale cancels the tasks of a job that runs, and the next attempt
    begins at once with another ``parallelism``, from the latest checkpoint. An upgrade kills the process of
    the job as soon as a checkpoint is complete; the next one runs the new version, from that checkpoint.
    """

    kind: OperationKind
    point: Point
    task: str = ANY_TASK
    checkpoint: Count = 0
    occurrence: Positive = 1
    after: Count = 0
    parallelism: Count = 0
    state_backend: StateBackend | None = None
    claims: bool = False
    """Whether the restarted job claims the savepoint, and may delete it when it no longer needs it."""
    upgrades: bool = False
    """Whether the new version of the job is started; always so of an upgrade."""


class Schedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How the simulation chooses the next of the possible actions.

    fair: round robin. uniform: each possible action has the same chance. priority: the class with the highest
    number goes first (an unlisted class has 0), or one that has waited for long; within a class the seed
    decides, or round robin with seed 0, under which none is waited for; at most four changes give a class
    another number. preemptions: fair, but at the listed steps the named
    action goes first if it is possible. From step ``horizon`` on every schedule is fair, so that liveness can
    be checked.
    """

    kind: ScheduleKind = "fair"
    seed: Count = 0
    priorities: dict[ActionClass, int] = {}
    changes: Annotated[tuple[tuple[Count, ActionClass, int], ...], msgspec.Meta(max_length=4)] = ()
    horizon: Count = 0
    preemptions: tuple[tuple[Count, str], ...] = ()

    @property
    def choices(self) -> int:
        """How many choices it lists that a fair schedule would not make; a seed counts as one."""
        listed = len(self.preemptions) + len(self.priorities) + len(self.changes)
        return listed + (self.seed > 0)


class Parallelism(NamedTuple):
    """The number of subtasks of each kind of operator."""

    source: int
    keyed: int
    sink: int


USUAL_WATERMARK_INTERVAL_MS: Final = 200
"""The engine's default of ``pipeline.auto-watermark-interval``."""


class Needed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """That the failure of a shrunk scenario, which stays large, needs each of its parts.

    The shrinker left out each record, fault, operation and choice of the schedule alone, and ran the rest:
    none of these runs failed with the signature.
    """

    signature: tuple[str, str]
    records: Count
    faults: Count
    operations: Count
    choices: Count


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One case of a family with its input, its settings, its faults and its schedule."""

    family: str
    generator_version: int
    seed: int | None
    """The seed it was generated from; None if it was shrunk or written by hand."""
    parameters: dict[str, Parameter]
    records: Annotated[dict[str, tuple[InputRecord, ...]], msgspec.Meta(min_length=1)]
    """The records of each split. A record's offset is its index."""
    parallelism: Positive
    """The parallelism of keyed operators; ``Fault.rescale_to`` changes it."""
    max_parallelism: Positive
    source_parallelism: Count
    """0: the same as ``parallelism``, also after a rescale."""
    sink_parallelism: Count
    """0: the same as ``parallelism``, also after a rescale."""
    channel_capacity: Positive
    checkpoint_interval_ms: Positive
    checkpoint_timeout_ms: Positive
    tolerable_failures: Count
    """How many checkpoints may fail in a row before the job restarts."""
    retained: Positive
    restart_delay_ms: Count
    faults: tuple[Fault, ...]
    schedule: Schedule
    step_budget: Positive
    """Number of steps after which an unfinished run counts as stuck."""
    format_version: int = FORMAT_VERSION
    state_backend: StateBackend | msgspec.UnsetType = msgspec.UNSET
    """Where keyed state lives; the heap if unset."""
    incremental: bool | msgspec.UnsetType = msgspec.UNSET
    """Whether checkpoints of databases store only changes; everything if unset."""
    mode: CheckpointMode | msgspec.UnsetType = msgspec.UNSET
    """How checkpoints are taken; aligned, one at a time, if unset."""

    operations: tuple[Operation, ...] | msgspec.UnsetType = msgspec.UNSET
    """The requests to the running job; none if unset."""
    watermark_interval_ms: Positive | msgspec.UnsetType = msgspec.UNSET
    """How often stock watermark strategies emit; the engine's default if unset."""
    buffer_records: Positive | msgspec.UnsetType = msgspec.UNSET
    """The most records that a source sends, and a task reads, at a time; 1 if unset."""
    endless: bool | msgspec.UnsetType = msgspec.UNSET
    """Whether the sources never end: records arrive while the job runs, and once all are read its user stops
    it, drained. If unset, all records are there from the beginning and the sources end behind them."""
    started_ms: Count | msgspec.UnsetType = msgspec.UNSET
    """What the wall clock of the simulation shows at the start; the epoch if unset."""
    restarts: Restarts | msgspec.UnsetType = msgspec.UNSET
    """The restart strategy; a fixed delay and any number of restarts if unset."""
    leaves_max_parallelism: bool | msgspec.UnsetType = msgspec.UNSET
    """Whether a process takes the maximum parallelism of a checkpoint that it finds, and sets none itself."""
    without_checkpoints: bool | msgspec.UnsetType = msgspec.UNSET
    """Whether the job takes no checkpoints. It commits at its end, or with the savepoint of a stop. After a
    failure it begins anew, or from that savepoint."""
    needed: Needed | msgspec.UnsetType = msgspec.UNSET
    """Of a shrunk scenario that stays large: its parts, which it needs. No run reads it."""

    @property
    def starts_at_ms(self) -> int:
        """What the wall clock shows at the start, with its default."""
        return 0 if self.started_ms is msgspec.UNSET else self.started_ms

    @property
    def is_endless(self) -> bool:
        """Whether the sources never end."""
        return self.endless is True

    @property
    def watermark_interval(self) -> int:
        """How often stock watermark strategies emit, in milliseconds, with its default."""
        interval = self.watermark_interval_ms
        return USUAL_WATERMARK_INTERVAL_MS if interval is msgspec.UNSET else interval

    @property
    def most_buffer_records(self) -> int:
        """The most records that a source sends at a time, with its default."""
        return 1 if self.buffer_records is msgspec.UNSET else self.buffer_records

    @property
    def asked(self) -> tuple[Operation, ...]:
        """The requests to the running job."""
        return () if self.operations is msgspec.UNSET else self.operations

    @property
    def checkpoint_mode(self) -> CheckpointMode:
        """The checkpoint mode, with its default."""
        return ALIGNED if self.mode is msgspec.UNSET else self.mode

    @property
    def is_exactly_once(self) -> bool:
        """Whether rows must not come again after a failure."""
        return self.takes_checkpoints and self.checkpoint_mode.barriers != "at_least_once"

    @property
    def takes_checkpoints(self) -> bool:
        """Whether the job takes checkpoints."""
        return self.without_checkpoints is not True

    def parallelisms(self, keyed: int = 0) -> Parallelism:
        """Return the parallelism of each kind of operator, at the start or after a rescale to ``keyed``."""
        keyed = keyed or self.parallelism
        return Parallelism(self.source_parallelism or keyed, keyed, self.sink_parallelism or keyed)

    @property
    def highest_parallelism(self) -> int:
        """The highest parallelism of keyed operators in the course of a run, stops aside."""
        rescales = [each.parallelism for each in self.asked if each.kind == "rescale"]
        return max(self.parallelism, *rescales, *[fault.rescale_to for fault in self.faults], 1)

    def record_count(self) -> int:
        """Return the number of records over all splits."""
        return sum(len(records) for records in self.records.values())


class ScenarioError(Exception):
    """A scenario that cannot be used; the message is one line with the file, the field and the mend."""


class _FormatVersion(msgspec.Struct):
    format_version: int = 0


_version_decoder = msgspec.json.Decoder(_FormatVersion)
_decoder = msgspec.json.Decoder(Scenario)
_encoder = msgspec.json.Encoder()


def to_json(scenario: Scenario, indent: int = 0) -> str:
    """Return the scenario as JSON, on one line or indented."""
    encoded = _encoder.encode(scenario)
    return (msgspec.json.format(encoded, indent=indent) if indent else encoded).decode()


def from_json(text: str | bytes, path: str = "scenario") -> Scenario:
    """Return the scenario that a JSON text holds; ``path`` is named in errors."""
    try:
        version = _version_decoder.decode(text).format_version
        if version > FORMAT_VERSION:
            raise ScenarioError(
                f"{path}: format version {version} is newer than {FORMAT_VERSION}, the newest this onceproof"
                " reads; use the onceproof that wrote it, or a later one"
            )
        if version < 1:
            raise ScenarioError(f"{path}: no format_version of 1 or more: this is no scenario of onceproof")
        scenario = _decoder.decode(text)
    except msgspec.ValidationError as error:
        raise ScenarioError(f"{path}: {_in_words(str(error))}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: not JSON: {error}") from None
    except RecursionError:
        raise ScenarioError(f"{path}: nested too deeply: this is no scenario of onceproof") from None
    check(scenario, path)
    if beyond := _beyond_bounds(scenario):
        raise ScenarioError(f"{path}: {beyond}")
    return scenario


def read_scenario(path: Path) -> Scenario:
    """Return the scenario in a JSON file."""
    try:
        text = read_at_most(path, MOST_BYTES)
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read: {error.strerror or error}") from None
    scenario = from_json(text, str(path))
    _check_needed(scenario, path)
    return scenario


def check(scenario: Scenario, path: str = "scenario") -> None:
    """Raise ScenarioError where two fields contradict each other."""
    highest = scenario.max_parallelism
    for role, parallelism in scenario.parallelisms()._asdict().items():
        if parallelism > highest:
            raise ScenarioError(f"{path}: parallelism of {role} {parallelism} > max_parallelism {highest}")
    mode = scenario.checkpoint_mode
    if mode.aligned_timeout_ms and mode.barriers != "unaligned":
        raise ScenarioError(f"{path}: mode: aligned_timeout_ms belongs to unaligned, not to {mode.barriers}")
    if mode.max_concurrent > 1 and mode.barriers == "unaligned":
        raise ScenarioError(f"{path}: mode: unaligned checkpoints go one at a time: max_concurrent must be 1")
    for index, fault in enumerate(scenario.faults):
        place = f"{path}: faults[{index}]"
        row = FAULTS[fault.kind]
        if fault.point not in row.all_points:
            fitting = ", ".join(row.all_points)
            raise ScenarioError(f"{place}: {fault.kind} does not happen at {fault.point}, but at {fitting}")
        if fault.means and fault.means not in row.means:
            raise ScenarioError(f"{place}: {fault.kind} does not happen by {fault.means}")
        if fault.rescale_to and not row.is_kill:
            raise ScenarioError(f"{place}: rescale_to belongs to kills, not to {fault.kind}")
        if (row.strikes == "server") != bool(fault.server):
            says = "needs" if row.strikes == "server" else "strikes no server and has no"
            raise ScenarioError(f"{place}: {fault.kind} {says} server")
        if (fault.point == MARK, row.strikes == "own") != (bool(fault.mark), bool(fault.name)):
            raise ScenarioError(f"{place}: the point mark needs a mark, own_fault a name, and no others do")
        if fault.rescale_to > highest:
            raise ScenarioError(f"{place}: rescale_to {fault.rescale_to} > max_parallelism {highest}")
        if row.delay == "required" and not fault.delay:
            raise ScenarioError(f"{place}: {fault.kind} needs a delay of 1 or more")
    for index, operation in enumerate(scenario.asked):
        place = f"{path}: operations[{index}]"
        if operation.parallelism > highest:
            raise ScenarioError(f"{place}: parallelism {operation.parallelism} > max_parallelism {highest}")
        is_rescale = operation.kind == "rescale"
        if is_rescale and not operation.parallelism:
            raise ScenarioError(f"{place}: a rescale needs a parallelism of 1 or more")
        kept = operation.parallelism if is_rescale else 0
        if operation.kind not in ENDS and operation != replace(
            operation, parallelism=kept, state_backend=None, claims=False, upgrades=False
        ):
            says = f"belongs to a stop or a cancel, not to a {operation.kind}"
            raise ScenarioError(f"{place}: how the job resumes {says}")


def _check_needed(scenario: Scenario, path: Path) -> None:
    """Raise ScenarioError where what was shown of a scenario cannot be of this one."""
    needed = scenario.needed
    if needed is msgspec.UNSET:
        return
    for name, shown, there in (
        ("records", needed.records, scenario.record_count()),
        ("faults", needed.faults, len(scenario.faults)),
        ("operations", needed.operations, len(scenario.asked)),
        ("choices", needed.choices, scenario.schedule.choices),
    ):
        if shown != there:
            raise ScenarioError(
                f"{path}: needed.{name} is {shown:,}, but the scenario has {there:,}: it was changed"
                " after it was shrunk; delete needed"
            )


def _beyond_bounds(scenario: Scenario) -> str:
    """Return what in a scenario exceeds its bound, with the place; "" if nothing does."""
    for place, value, most in _bounded(scenario):
        if value > most:
            return f"{place} {value:,} is more than {most:,}, the most that a scenario may have"
    for split, records in scenario.records.items():
        for offset, (timestamp, read) in enumerate(records):
            if not TIMES[0] <= timestamp <= TIMES[1]:
                return f"records[{split!r}][{offset}]: the timestamp has more than 64 bits"
            if _has_too_large_a_number(read):
                return f"records[{split!r}][{offset}]: a number of the value has more than 64 bits"
    return ""


def _has_too_large_a_number(value: RecordValue) -> bool:
    if isinstance(value, tuple):
        return any(_has_too_large_a_number(each) for each in value)
    return isinstance(value, int) and not TIMES[0] <= value <= TIMES[1]


def most_steps(records: int) -> int:
    """Return the highest step budget and horizon of a scenario with so many records."""
    return MOST_STEPS + STEPS_PER_RECORD * records


def _bounded(scenario: Scenario) -> Iterator[tuple[str, int, int]]:
    """Yield place, value and bound of each number."""
    yield "max_parallelism", scenario.max_parallelism, MOST_KEY_GROUPS
    for name in ("parallelism", "source_parallelism", "sink_parallelism"):
        yield name, getattr(scenario, name), MOST_SUBTASKS
    steps = most_steps(scenario.record_count())
    yield "step_budget", scenario.step_budget, steps
    yield "number of faults", len(scenario.faults), MOST_FAULTS
    yield "number of operations", len(scenario.asked), MOST_FAULTS
    for name in (
        "channel_capacity",
        "checkpoint_interval_ms",
        "checkpoint_timeout_ms",
        "tolerable_failures",
        "retained",
        "restart_delay_ms",
        "watermark_interval",
    ):
        yield name, getattr(scenario, name), MOST_MS
    for name in ("aligned_timeout_ms", "max_concurrent", "min_pause_ms"):
        yield f"mode.{name}", getattr(scenario.checkpoint_mode, name), MOST_MS
    yield "started_ms", scenario.starts_at_ms, LATEST_START_MS
    yield "schedule.horizon", scenario.schedule.horizon, steps
    for index, fault in enumerate(scenario.faults):
        yield f"faults[{index}].rescale_to", fault.rescale_to, MOST_SUBTASKS
        for name in ("checkpoint", "occurrence", "after", "delay"):
            yield f"faults[{index}].{name}", getattr(fault, name), MOST_MS
    for index, operation in enumerate(scenario.asked):
        yield f"operations[{index}].parallelism", operation.parallelism, MOST_SUBTASKS
        for name in ("checkpoint", "occurrence", "after"):
            yield f"operations[{index}].{name}", getattr(operation, name), MOST_MS


def _in_words(message: str) -> str:
    """Return msgspec's message in the project's words: "expected `int`, got `str` at faults[0].after"."""
    what, separator, place = message.partition(" - at `")
    what = what[:1].lower() + what[1:]
    what = what.replace("object contains unknown field", "unknown field")
    what = what.replace("object missing required field", "missing field")
    what = what.replace("invalid enum value", "unknown value")
    if not separator:
        return what
    place = place.rstrip("`").removeprefix("key` in `").removeprefix("$").removeprefix(".")
    return f"{what} at {place}" if place else what
