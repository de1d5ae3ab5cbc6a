"""The parameters that experiments vary: their distributions, and their names in sentences.

The rules this module lives by:

- Parameters are independent: only then do Sobol indices separate their influences.
- A parameter whose effect follows its ratio (such as the number of keys) is drawn by its logarithm.
- A point holds drawn numbers; a scenario gets ``Settings``, which are rounded. The rounding is part of the
  model.
- This module does not import chaospy, because executors import it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from onceproof.reports.text import counted


@dataclass(frozen=True, slots=True)
class Range:
    """A uniform distribution of real numbers from low to high."""

    low: float
    high: float

    @property
    def ends(self) -> tuple[float, float]:
        """Return a low and a high value, a tenth inside the range, because a fit is poor at its ends."""
        tenth = (self.high - self.low) / 10
        return self.low + tenth, self.high - tenth


@dataclass(frozen=True, slots=True)
class Whole:
    """A uniform distribution of integers from low to high, both included."""

    low: int
    high: int

    @property
    def atoms(self) -> int:
        """Return the number of values."""
        return self.high - self.low + 1

    @property
    def ends(self) -> tuple[float, float]:
        """Return the lowest and the highest value."""
        return float(self.low), float(self.high)


Marginal: TypeAlias = Range | Whole
Space: TypeAlias = Mapping[str, Marginal]
"""By name, the distribution of each parameter."""
Point: TypeAlias = Mapping[str, float]
"""By name, a value of each parameter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The studied settings of a designed scenario; None for those that an experiment does not vary."""

    keys: int | None = None
    skew: float | None = None
    disorder_ms: int | None = None
    checkpoint_interval_ms: int
    parallelism: int
    fault_time: float
    channel_capacity: int


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a scenario."""

    marginal: Marginal
    label: str
    """Its name in a sentence: "the number of keys"."""
    meaning: str
    setting: Callable[[float], float]
    """Converts a drawn value to the scenario's setting."""
    shown: Callable[[float], str]
    """Returns a setting in words: "8 keys"."""

    def text(self, value: float) -> str:
        """Return a drawn value as its setting in words."""
        return self.shown(self.setting(value))


def _thousandths(value: float) -> float:
    return round(float(value), 3)


PARAMETERS: Final[dict[str, Parameter]] = {
    "keys": Parameter(
        Range(0, 5),
        "the number of keys",
        "how many keys the records have, drawn by its logarithm",
        lambda value: round(2**value),
        lambda setting: counted(int(setting), "key"),
    ),
    "skew": Parameter(
        Range(0, 2),
        "the skew of the keys",
        "the exponent of Zipf's law: at 0 all keys are alike, at 2 the first has most of the records",
        _thousandths,
        lambda setting: f"exponent {setting:.1f}",
    ),
    "disorder_ms": Parameter(
        Range(0, 50),
        "the disorder of timestamps",
        "how far a record's timestamp may lie behind its turn",
        round,
        lambda setting: f"{setting:.0f} ms",
    ),
    "checkpoint_interval_ms": Parameter(
        Range(20, 160),
        "the checkpoint interval",
        "from the trigger of one checkpoint to the next, a step of the simulation being a millisecond",
        round,
        lambda setting: f"{setting:.0f} ms",
    ),
    "parallelism": Parameter(
        Whole(1, 4),
        "the parallelism",
        "subtasks of the keyed operator and of the sink",
        int,
        lambda setting: counted(int(setting), "subtask"),
    ),
    "fault_time": Parameter(
        Range(0.05, 0.95),
        "the moment of the kill",
        "which part of the records has been processed when all tasks are killed",
        _thousandths,
        lambda setting: f"{setting:.0%} of the work",
    ),
    "channel_capacity": Parameter(
        Whole(1, 8),
        "the size of the buffers",
        "how many elements a channel between two subtasks holds",
        int,
        lambda setting: counted(int(setting), "element"),
    ),
}

SPACE: Final[Space] = {name: parameter.marginal for name, parameter in PARAMETERS.items()}
OF_RECORDS: Final = ("keys", "skew", "disorder_ms")
"""The parameters that describe the records; the others describe the job and its failure."""


def space_of(varies_records: bool) -> Space:
    """Return the parameters of an experiment, with or without those that describe the records."""
    return {name: each for name, each in SPACE.items() if varies_records or name not in OF_RECORDS}


def settings_of(point: Point) -> Settings:
    """Return the settings of a scenario at a point."""
    return Settings(**{name: PARAMETERS[name].setting(value) for name, value in point.items()})  # type: ignore[arg-type]
