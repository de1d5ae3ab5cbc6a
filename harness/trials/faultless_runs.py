"""Runs of a scenario without a fault: undisturbed ones, and one for each thing that needs none.

The rules this module lives by:

- An undisturbed run has no fault, no request and aligned checkpoints.
- Each condition adds one thing that users do or configure: unaligned barriers, several records at a time, a
  stop and a restart, a rescale, the other state backend, a long time without input. The last one is the
  scenario as it was drawn, without its faults. So what a run does without a fault, ``onceproof check`` has
  done.
- A request comes in the middle of the input: the restarted job has records left to read.
- A condition carries the words for a failure under it: what was done, the member to look at, the remedy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.generation.drawn_times import HOUR_MS, LONGEST_MS
from onceproof.harness.model.family import Family, options_of
from onceproof.harness.model.job_settings import CheckpointMode
from onceproof.harness.model.scenario import Fault, Operation, OperationKind, Scenario, Schedule
from onceproof.harness.model.step_limits import with_ample_limits

SEVERAL_RECORDS: Final = 3
SIZES: Final = (2, 1, 3)
"""The parallelisms to which a job is rescaled; the first one that is another and that it may have."""

_IN_STATE: Final = (
    "Keep what the job needs after a restore in Flink state, not in attributes or globals, and set the rest"
    " in open()."
)


class Condition(NamedTuple):
    """One thing that a run does without a fault."""

    name: str
    """What is done, as it follows on "fails without a fault,"."""
    scenario: Scenario
    member: str
    """The member of the family that a failure concerns."""
    remedy: str
    for_times_to_live: bool = False
    """Whether it is left out where timers wait: one that fires again each millisecond would take hours."""


def undisturbed(scenario: Scenario, schedule: Schedule = Schedule(), parallelism: int = 0) -> Scenario:  # noqa: B008 (nothing in it changes)
    """Return a scenario with nothing that goes wrong, at another parallelism if one is given."""
    return with_ample_limits(
        replace(
            scenario,
            faults=(),
            operations=UNSET,
            mode=UNSET,
            schedule=schedule,
            parallelism=parallelism or scenario.parallelism,
        )
    )


def conditions_of(family: Family, scenario: Scenario) -> Iterator[Condition]:
    """Yield what a run of a scenario does without a fault, one thing at a time."""
    options = options_of(family)
    calm = undisturbed(scenario, Schedule(kind="uniform", seed=2))
    if options.barriers in (None, "unaligned"):
        yield Condition(
            "with unaligned barriers",
            with_ample_limits(replace(calm, mode=CheckpointMode("unaligned"))),
            "expected",
            "Let expected() allow what is in flight at a checkpoint to arrive late, or set"
            ' barriers="aligned" in FamilyOptions if the job never runs with others.',
        )
    yield Condition(
        f"with {SEVERAL_RECORDS} records at a time",
        replace(calm, buffer_records=SEVERAL_RECORDS),
        "job",
        "Let no row depend on how records of several splits are interleaved.",
    )
    yield _asked(scenario, "stop", "stopped with a savepoint and started again")
    size = next((each for each in SIZES if each != scenario.parallelism), 1)
    if size <= scenario.max_parallelism:
        yield _asked(scenario, "stop", f"stopped and started again at parallelism {size}", size)
        yield _asked(scenario, "rescale", f"rescaled to parallelism {size} while it ran", size)
    if options.any_backend:
        yield Condition(
            "with keyed state in RocksDB",
            replace(calm, state_backend="rocksdb", incremental=True),
            "any_backend",
            "Call update() or put() after a change of a value from state, or leave any_backend out of"
            " FamilyOptions.",
        )
    yield from silences_of(scenario)
    yield Condition(
        "under the checkpoint mode and the requests that were drawn",
        with_ample_limits(replace(scenario, faults=())),
        "job",
        f"Check job() and expected(). {_IN_STATE}",
    )


def silences_of(scenario: Scenario) -> Iterator[Condition]:
    """Yield the conditions in which time passes in the middle of the input."""
    for name, passed_ms in (("an hour", HOUR_MS), ("a day", LONGEST_MS)):
        passes = Fault("clock_ahead", "element", occurrence=_middle(scenario), delay=passed_ms)
        yield Condition(
            f"where {name} passes in the middle of the input",
            with_ample_limits(replace(undisturbed(scenario), faults=(passes,))),
            "declares",
            "The rows depend on processing time, which no input decides. Leave out of them what timers and"
            " times to live decide; or set declares=True, and let expected() allow what may have expired.",
            for_times_to_live=passed_ms == LONGEST_MS,
        )


def _asked(scenario: Scenario, kind: OperationKind, name: str, parallelism: int = 0) -> Condition:
    """Return the condition of a request in the middle of the input."""
    request = Operation(kind, "element", occurrence=_middle(scenario), parallelism=parallelism)
    disturbed = with_ample_limits(replace(undisturbed(scenario), operations=(request,)))
    return Condition(name, disturbed, "job", _IN_STATE)


def _middle(scenario: Scenario) -> int:
    """Return which passage of a record by an operator is in the middle: each passes about two."""
    return max(1, scenario.record_count())
