"""Every option of the engine: its Flink key, its type, its default, and what it may be.

An option is checked when it is set, by name and by value, so that a mistake is told where it is made. The
spellings of older Flink versions are accepted with one warning. What Flink knows and this engine does not do
yet is refused by name rather than ignored, because an ignored option is a wrong guarantee.

Restart strategy: as long as exponential-delay, Flink's default with checkpointing, does not exist here, the
default is fixed-delay with 1 s and no limit (which was Flink's default up to 1.18). Without checkpointing
it is none, as in Flink.
"""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from engine.key_groups import MAX_PARALLELISM_LIMIT

T = TypeVar("T")

UNLIMITED_RESTARTS: Final = 2147483647
EXACTLY_ONCE: Final = "EXACTLY_ONCE"
FIXED_DELAY: Final = "fixed-delay"
NO_RESTART: Final = "none"
MIN_INTERVAL_MS: Final = 10


class ConfigurationError(ValueError):
    """An option that does not exist, a value it cannot have, or options that contradict each other."""


@dataclass(frozen=True, slots=True)
class ConfigOption(Generic[T]):
    """One option. ``parse`` turns text or a plain value into the option's type, or raises ValueError."""

    key: str
    default: T
    parse: Callable[[Any], T]
    doc: str
    deprecated: tuple[str, ...] = ()


# How values are read.


def parse_integer(value: Any) -> int:
    """Read a whole number."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("a whole number is needed")
    try:
        return int(value)
    except ValueError:
        raise ValueError("a whole number is needed") from None


def at_least(lowest: int) -> Callable[[Any], int]:
    """Read a whole number with a lower bound."""

    def parse(value: Any) -> int:
        number = parse_integer(value)
        if number < lowest:
            raise ValueError(f"at least {lowest} is needed")
        return number

    return parse


def parse_boolean(value: Any) -> bool:
    """Read true or false."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise ValueError("true or false is needed")


def parse_text(value: Any) -> str:
    """Read a text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text that is not empty is needed")
    return value


_UNITS: Final = {
    "": 1, "ms": 1, "milli": 1, "millis": 1, "millisecond": 1, "milliseconds": 1,
    "s": 1000, "sec": 1000, "secs": 1000, "second": 1000, "seconds": 1000,
    "m": 60_000, "min": 60_000, "minute": 60_000, "minutes": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "hours": 3_600_000,
    "d": 86_400_000, "day": 86_400_000, "days": 86_400_000,
}  # fmt: skip
_DURATION: Final = re.compile(r"\s*(\d+)\s*([a-zA-Z]*)\s*")


def parse_duration_ms(value: Any) -> int:
    """Read a duration: ``10 s``, ``500 ms``, ``2 min``; a bare number is milliseconds."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise ValueError("a duration cannot be negative")
        return value
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2].lower() not in _UNITS:
        raise ValueError("a duration is needed, such as '10 s', '500 ms' or '2 min'")
    return int(match[1]) * _UNITS[match[2].lower()]


def parse_interval_ms(value: Any) -> int:
    """Read a checkpoint interval, for which Flink has a lower bound."""
    interval_ms = parse_duration_ms(value)
    if interval_ms < MIN_INTERVAL_MS:
        raise ValueError(f"at least {MIN_INTERVAL_MS} ms is needed")
    return interval_ms


def parse_timeout_ms(value: Any) -> int:
    """Read a duration that is not zero."""
    timeout_ms = parse_duration_ms(value)
    if timeout_ms == 0:
        raise ValueError("a duration longer than zero is needed")
    return timeout_ms


def parse_max_parallelism(value: Any) -> int:
    """Read a max parallelism; -1 derives it from the parallelism."""
    number = parse_integer(value)
    if number != -1 and not 1 <= number <= MAX_PARALLELISM_LIMIT:
        raise ValueError(f"1 to {MAX_PARALLELISM_LIMIT} is needed, or -1 to derive it from the parallelism")
    return number


def one_of(words: Mapping[str, str], later: tuple[str, ...] = ()) -> Callable[[Any], str]:
    """Read one of several words, however they are written; ``later`` names those not supported yet."""

    def spelled(word: str) -> str:
        return word.strip().lower().replace("_", "").replace("-", "")

    known = {spelled(word): meaning for word, meaning in words.items()}
    unsupported = {spelled(word): word for word in later}

    def parse(value: Any) -> str:
        choices = ", ".join(dict.fromkeys(words.values()))
        if isinstance(value, str):
            word = spelled(value)
            if word in known:
                return known[word]
            if word in unsupported:
                raise ValueError(f"not supported yet; the choice is {choices}")
        raise ValueError(f"the choice is {choices}")

    return parse


def parse_not_yet(value: Any) -> bool:
    """Read a switch that can only be off for now."""
    if parse_boolean(value):
        raise ValueError("not supported yet; leave it false")
    return False


# The options.

CHECKPOINT_INTERVAL: Final = ConfigOption[int | None](
    "execution.checkpointing.interval",
    None,
    parse_interval_ms,
    "Time between the triggers of two checkpoints; unset: no periodic checkpoints.",
)
CHECKPOINT_INTERVAL_RECORDS: Final = ConfigOption[int | None](
    "execution.checkpointing.interval-records",
    None,
    at_least(1),
    "Ours: trigger a checkpoint whenever the sources together have read so many records more.",
)
CHECKPOINT_MODE: Final = ConfigOption[str](
    "execution.checkpointing.mode",
    EXACTLY_ONCE,
    one_of({"EXACTLY_ONCE": EXACTLY_ONCE}, later=("AT_LEAST_ONCE",)),
    "The effect of each record on state.",
)
CHECKPOINT_TIMEOUT: Final = ConfigOption[int](
    "execution.checkpointing.timeout",
    600_000,
    parse_timeout_ms,
    "How long a checkpoint may take before it is aborted.",
)
CHECKPOINT_MIN_PAUSE: Final = ConfigOption[int](
    "execution.checkpointing.min-pause",
    0,
    parse_duration_ms,
    "Least time between the completion of one checkpoint and the next periodic trigger.",
)
CHECKPOINT_MAX_CONCURRENT: Final = ConfigOption[int](
    "execution.checkpointing.max-concurrent-checkpoints",
    1,
    at_least(1),
    "How many checkpoints may be pending at a time.",
)
CHECKPOINT_TOLERABLE_FAILURES: Final = ConfigOption[int](
    "execution.checkpointing.tolerable-failed-checkpoints",
    0,
    at_least(0),
    "How many checkpoints in a row may fail before the job does.",
)
CHECKPOINT_NUM_RETAINED: Final = ConfigOption[int](
    "execution.checkpointing.num-retained",
    1,
    at_least(1),
    "How many completed checkpoints are kept.",
    ("state.checkpoints.num-retained",),
)
CHECKPOINT_DIRECTORY: Final = ConfigOption[str | None](
    "execution.checkpointing.dir",
    None,
    parse_text,
    "Where checkpoints are stored; each job has a directory below it.",
    ("state.checkpoints.dir",),
)
CHECKPOINT_RETENTION: Final = ConfigOption[str](
    "execution.checkpointing.externalized-checkpoint-retention",
    "NO_EXTERNALIZED_CHECKPOINTS",
    one_of(
        {
            "NO_EXTERNALIZED_CHECKPOINTS": "NO_EXTERNALIZED_CHECKPOINTS",
            "RETAIN_ON_CANCELLATION": "RETAIN_ON_CANCELLATION",
            "DELETE_ON_CANCELLATION": "DELETE_ON_CANCELLATION",
        }
    ),
    "What happens to the checkpoints when the job ends.",
)
CHECKPOINT_UNALIGNED: Final = ConfigOption[bool](
    "execution.checkpointing.unaligned.enabled",
    False,
    parse_not_yet,
    "Whether barriers overtake buffered records.",
)
STATE_BACKEND: Final = ConfigOption[str](
    "state.backend.type",
    "hashmap",
    one_of({"hashmap": "hashmap"}, later=("rocksdb", "forst")),
    "Where keyed state lives while the job runs.",
    ("state.backend",),
)
RESTART_STRATEGY: Final = ConfigOption[str | None](
    "restart-strategy.type",
    None,
    one_of(
        {
            "none": NO_RESTART,
            "off": NO_RESTART,
            "disable": NO_RESTART,
            "fixed-delay": FIXED_DELAY,
        },
        later=("exponential-delay", "failure-rate"),
    ),
    "Whether and when a failed job is tried again.",
    ("restart-strategy",),
)
RESTART_ATTEMPTS: Final = ConfigOption[int](
    "restart-strategy.fixed-delay.attempts",
    1,
    at_least(0),
    "How many restarts in the life of the job.",
)
RESTART_DELAY: Final = ConfigOption[int](
    "restart-strategy.fixed-delay.delay",
    1000,
    parse_duration_ms,
    "How long to wait before each restart.",
)
DEFAULT_PARALLELISM: Final = ConfigOption[int](
    "parallelism.default",
    1,
    at_least(1),
    "Number of subtasks of each operator that says nothing else.",
)
MAX_PARALLELISM: Final = ConfigOption[int](
    "pipeline.max-parallelism",
    -1,
    parse_max_parallelism,
    "Number of key groups of each operator that says nothing else; -1: derived from its parallelism.",
)
JOB_NAME: Final = ConfigOption[str | None](
    "pipeline.name",
    None,
    parse_text,
    "Name of the job, from which its id is derived.",
)
OPERATOR_CHAINING: Final = ConfigOption[bool](
    "pipeline.operator-chaining.enabled",
    True,
    parse_boolean,
    "Whether operators that can share a task do.",
    ("pipeline.operator-chaining",),
)
BUFFER_RECORDS: Final = ConfigOption[int](
    "pipeline.buffer-records",
    1000,
    at_least(1),
    "Ours: how many records a buffer holds; 1 is slow, several thousand are slow too.",
)
CHANNEL_BUFFERS: Final = ConfigOption[int](
    "pipeline.channel-buffers",
    8,
    at_least(1),
    "Ours: how many buffers wait in a channel before its sender must pause.",
)
ALLOW_PICKLED_STATE: Final = ConfigOption[bool](
    "pipeline.allow-pickled-state",
    False,
    parse_boolean,
    "Ours: whether a restore may read pickled state, which runs whatever code the checkpoint names.",
)

OPTIONS: Final[tuple[ConfigOption[Any], ...]] = (
    CHECKPOINT_INTERVAL,
    CHECKPOINT_INTERVAL_RECORDS,
    CHECKPOINT_MODE,
    CHECKPOINT_TIMEOUT,
    CHECKPOINT_MIN_PAUSE,
    CHECKPOINT_MAX_CONCURRENT,
    CHECKPOINT_TOLERABLE_FAILURES,
    CHECKPOINT_NUM_RETAINED,
    CHECKPOINT_DIRECTORY,
    CHECKPOINT_RETENTION,
    CHECKPOINT_UNALIGNED,
    STATE_BACKEND,
    RESTART_STRATEGY,
    RESTART_ATTEMPTS,
    RESTART_DELAY,
    DEFAULT_PARALLELISM,
    MAX_PARALLELISM,
    JOB_NAME,
    OPERATOR_CHAINING,
    BUFFER_RECORDS,
    CHANNEL_BUFFERS,
    ALLOW_PICKLED_STATE,
)

_BY_KEY: Final = {option.key: option for option in OPTIONS}
_BY_DEPRECATED_KEY: Final = {key: option for option in OPTIONS for key in option.deprecated}

NOT_SUPPORTED_YET: Final = (
    "execution.checkpointing.savepoint-dir",
    "execution.checkpointing.aligned-checkpoint-timeout",
    "execution.state-recovery.path",
    "execution.state-recovery.claim-mode",
    "execution.state-recovery.ignore-unclaimed-state",
    "state.savepoints.dir",
)
"""Options of Flink that are refused by name until they exist here."""

_warned: set[str] = set()


def find_option(key: str) -> ConfigOption[Any]:
    """Give the option of a key, which may be a deprecated spelling.

    Raises ConfigurationError naming the nearest known key.
    """
    option = _BY_KEY.get(key)
    if option is not None:
        return option
    option = _BY_DEPRECATED_KEY.get(key)
    if option is not None:
        if key not in _warned:
            _warned.add(key)
            warnings.warn(f"option {key!r} is now {option.key!r}", FutureWarning, stacklevel=4)
        return option
    if key in NOT_SUPPORTED_YET:
        raise ConfigurationError(f"option {key!r} is not supported yet: remove it")
    near = difflib.get_close_matches(key, [*_BY_KEY, *_BY_DEPRECATED_KEY], n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(_BY_KEY)}"
    raise ConfigurationError(f"unknown option {key!r}: {hint}")


class Configuration:
    """The options of a job that were set (PyFlink: Configuration). Each is checked as it is set."""

    __slots__ = ("_values",)

    def __init__(self, other: Configuration | None = None) -> None:
        self._values: dict[str, tuple[Any, Any]] = {} if other is None else dict(other._values)

    @staticmethod
    def from_mapping(options: Mapping[str, Any]) -> Configuration:
        """Make a configuration of key -> value; the same option twice must mean the same."""
        configuration = Configuration()
        named: dict[str, str] = {}
        for key, value in options.items():
            option = find_option(key)
            before = configuration._values.get(option.key)
            configuration._set(option, key, value)
            if before is not None and before[1] != configuration._values[option.key][1]:
                raise ConfigurationError(
                    f"options {named[option.key]!r} and {key!r} are the same option with two values, "
                    f"{before[0]!r} and {value!r}: keep one"
                )
            named[option.key] = key
        return configuration

    def set(self, option: ConfigOption[Any], value: Any) -> Configuration:
        """Set an option."""
        self._set(option, option.key, value)
        return self

    def get(self, option: ConfigOption[T]) -> T:
        """Give the value of an option, or its default."""
        found = self._values.get(option.key)
        if found is None:
            return option.default
        value: T = found[1]
        return value

    def is_set(self, option: ConfigOption[Any]) -> bool:
        """Whether the option was set."""
        return option.key in self._values

    def _set(self, option: ConfigOption[Any], key: str, value: Any) -> None:
        try:
            self._values[option.key] = (value, option.parse(value))
        except ValueError as error:
            raise ConfigurationError(f"option {key!r} cannot be {value!r}: {error}") from error

    def _found(self, key: str) -> Any:
        return self._values.get(find_option(key).key)

    # PyFlink's names.

    def set_string(self, key: str, value: str) -> Configuration:
        """Set an option by its key."""
        self._set(find_option(key), key, value)
        return self

    def set_integer(self, key: str, value: int) -> Configuration:
        """Set an option by its key."""
        self._set(find_option(key), key, value)
        return self

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Set an option by its key."""
        self._set(find_option(key), key, value)
        return self

    def get_string(self, key: str, default_value: str) -> str:
        """Give the value as it was set, as text."""
        found = self._found(key)
        return default_value if found is None else _text(found[0])

    def get_integer(self, key: str, default_value: int) -> int:
        """Give the value as a whole number; a duration in milliseconds."""
        found = self._found(key)
        if found is None:
            return default_value
        if type(found[1]) is not int:
            raise ConfigurationError(f"option {key!r} is {found[0]!r}, which is no whole number")
        return found[1]

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """Give the value as true or false."""
        found = self._found(key)
        if found is None:
            return default_value
        if type(found[1]) is not bool:
            raise ConfigurationError(f"option {key!r} is {found[0]!r}, which is not true or false")
        return found[1]

    def contains_key(self, key: str) -> bool:
        """Whether the option was set."""
        return self._found(key) is not None

    def remove_config(self, key: str) -> bool:
        """Forget the option; tell whether it was set."""
        return self._values.pop(find_option(key).key, None) is not None

    def key_set(self) -> set[str]:
        """Give the keys that are set, in today's spelling."""
        return set(self._values)

    def to_dict(self) -> dict[str, str]:
        """Give what is set, as text, in today's spelling."""
        return {key: _text(value) for key, (value, _) in self._values.items()}

    def add_all(self, other: Configuration, prefix: str | None = None) -> None:
        """Take over what is set in another configuration, its keys put behind ``prefix``."""
        if prefix is None:
            self._values.update(other._values)
            return
        for key, (value, _) in other._values.items():
            self._set(find_option(prefix + key), prefix + key, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Configuration({self.to_dict()})"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """What the machines need to know, decided once when the job graph is built.

    ``restart_attempts`` is None where a failed job is not tried again.
    """

    interval_ms: int | None = None
    interval_records: int | None = None
    timeout_ms: int = 600_000
    min_pause_ms: int = 0
    max_concurrent: int = 1
    tolerable_failures: int = 0
    num_retained: int = 1
    directory: str | None = None
    retention: str = "NO_EXTERNALIZED_CHECKPOINTS"
    mode: str = EXACTLY_ONCE
    restart_attempts: int | None = None
    restart_delay_ms: int = 1000
    buffer_records: int = 1000
    channel_buffers: int = 8
    allow_pickled_state: bool = False

    @property
    def enabled(self) -> bool:
        """Whether checkpoints are taken."""
        return self.interval_ms is not None or self.interval_records is not None


def job_settings(configuration: Configuration) -> CheckpointSettings:
    """Decide the settings of a job.

    Raises ConfigurationError where options contradict each other.
    """
    get = configuration.get
    interval_ms = get(CHECKPOINT_INTERVAL)
    interval_records = get(CHECKPOINT_INTERVAL_RECORDS)
    min_pause_ms = get(CHECKPOINT_MIN_PAUSE)
    if interval_ms is not None:
        interval_ms = max(interval_ms, min_pause_ms)
    attempts, delay_ms = _restarts(configuration, interval_ms is not None or interval_records is not None)
    return CheckpointSettings(
        interval_ms=interval_ms,
        interval_records=interval_records,
        timeout_ms=get(CHECKPOINT_TIMEOUT),
        min_pause_ms=min_pause_ms,
        max_concurrent=get(CHECKPOINT_MAX_CONCURRENT),
        tolerable_failures=get(CHECKPOINT_TOLERABLE_FAILURES),
        num_retained=get(CHECKPOINT_NUM_RETAINED),
        directory=get(CHECKPOINT_DIRECTORY),
        retention=get(CHECKPOINT_RETENTION),
        mode=get(CHECKPOINT_MODE),
        restart_attempts=attempts,
        restart_delay_ms=delay_ms,
        buffer_records=get(BUFFER_RECORDS),
        channel_buffers=get(CHANNEL_BUFFERS),
        allow_pickled_state=get(ALLOW_PICKLED_STATE),
    )


def _restarts(configuration: Configuration, checkpointing: bool) -> tuple[int | None, int]:
    """Decide how often a failed job is tried again (None: never), and after how long."""
    strategy = configuration.get(RESTART_STRATEGY)
    if strategy != FIXED_DELAY:
        for option in (RESTART_ATTEMPTS, RESTART_DELAY):
            if configuration.is_set(option):
                is_now = "is not set" if strategy is None else f"is {strategy}"
                raise ConfigurationError(
                    f"option {option.key!r} is set but {RESTART_STRATEGY.key!r} {is_now}: "
                    f"set it to {FIXED_DELAY}, or remove the former"
                )
    delay_ms = configuration.get(RESTART_DELAY)
    if strategy == FIXED_DELAY:
        return configuration.get(RESTART_ATTEMPTS), delay_ms
    if strategy is None and checkpointing:
        return UNLIMITED_RESTARTS, delay_ms
    return None, delay_ms
