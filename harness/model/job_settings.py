"""The settings of a scenario's job that are more than a number: its checkpoint mode, its restart strategy.

Rules:

- Here stands what a scenario asks for. Engine, specifications and checkers each say for themselves what a
  job has to do about it: judges do not import the accused.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct

Barriers: TypeAlias = Literal["aligned", "unaligned", "at_least_once"]
RestartStrategy: TypeAlias = Literal["none", "fixed_delay", "failure_rate", "exponential_delay"]

Count: TypeAlias = Annotated[int, Meta(ge=0)]
Positive: TypeAlias = Annotated[int, Meta(ge=1)]

DELAY_GROWTH: Final = 2
"""How many times as long as the delay before it each delay of exponential_delay is."""
LONGEST_DELAYS: Final = 4
"""How many times as long as the first delay of exponential_delay its longest one is."""
LOOK_AT_TIME: Final[tuple[RestartStrategy, ...]] = ("failure_rate", "exponential_delay")
"""The strategies that may forget failures."""


class CheckpointMode(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How barriers travel, and how closely one checkpoint may follow another."""

    barriers: Barriers = "aligned"
    aligned_timeout_ms: Count = 0
    """For unaligned checkpoints: milliseconds of alignment before they become unaligned; 0: none."""
    max_concurrent: Positive = 1
    min_pause_ms: Count = 0

    def __str__(self) -> str:
        words = [self.barriers.replace("_", " ").replace("at least once", "at-least-once")]
        if self.aligned_timeout_ms:
            words = [f"unaligned after {self.aligned_timeout_ms} ms"]
        if self.max_concurrent > 1:
            words.append(f"up to {self.max_concurrent} at a time")
        if self.min_pause_ms:
            words.append(f"{self.min_pause_ms} ms between two")
        return ", ".join(words)


ALIGNED: Final = CheckpointMode()


class Restarts(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The restart strategy of the job; a job that fails for good is submitted anew.

    A restart follows after ``restart_delay_ms`` of the scenario. Delays of exponential_delay begin with it
    and double, up to LONGEST_DELAYS times as long.
    """

    strategy: RestartStrategy
    most: Count = 0
    """How many restarts are allowed: within ``window_ms`` for failure_rate, since the last quiet time for
    exponential_delay, else in all."""
    window_ms: Count = 0
    """Of failure_rate: the time in which failures count. Of exponential_delay: the quiet time after which
    delays and restarts count anew."""

    def __str__(self) -> str:
        match self.strategy:
            case "none":
                return "no restart"
            case "fixed_delay":
                return f"at most {self.most} restarts"
            case "failure_rate":
                return f"at most {self.most} restarts within {self.window_ms:,} ms"
            case _:
                return f"at most {self.most} restarts, the delays doubling, until {self.window_ms:,} quiet ms"

    @property
    def looks_at_time(self) -> bool:
        """Whether failures may be forgotten."""
        return self.strategy in LOOK_AT_TIME

    def longest_delay_ms(self, first_ms: int) -> int:
        """Return the longest delay before a restart; ``first_ms`` is the first one."""
        return LONGEST_DELAYS * first_ms if self.strategy == "exponential_delay" else first_ms
