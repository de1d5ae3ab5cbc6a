"""Hypothesis strategies for scenarios.

Rules:

- There are two strategies. ``generated`` draws only the seed of a scenario: it is by far the fastest, and
  uses the fault patterns of the generator. ``structured`` draws records, faults and schedule one by one, so
  that Hypothesis searches among them and finds combinations that the generator does not draw.
- Steps of the schedule are not drawn from Hypothesis: a run has hundreds, and its buffer holds 8,192 draws.
  Sizes are drawn before the lists themselves, because Hypothesis prefers short lists.
- Hypothesis does not shrink: harness.shrinking takes a second for what takes Hypothesis a minute. The failing
  scenario is shown as JSON, which can be replayed.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from hypothesis import strategies as st
from msgspec.structs import replace

from onceproof.harness.generation.drawn_faults import HIGHEST_PARALLELISM
from onceproof.harness.generation.drawn_workloads import workload_of
from onceproof.harness.generation.generator import generate, unfit_kinds
from onceproof.harness.model.chance import SEED_LIMIT
from onceproof.harness.model.family import Family
from onceproof.harness.model.fault_kinds import COORDINATOR_POINTS, FaultKind
from onceproof.harness.model.faults import FAULTS, JOB_FAULTS
from onceproof.harness.model.scenario import ACTION_CLASSES, ANY_TASK, Fault, InputRecord, Scenario, Schedule
from onceproof.harness.model.step_limits import with_ample_limits

NO_CONSTANT: Final = 10**18


def generated(family: Family) -> st.SearchStrategy[Scenario]:
    """Return the scenarios of all seeds."""
    return _seeds().map(lambda seed: generate(family, seed))


def _seeds() -> st.SearchStrategy[int]:
    """Return the seeds of scenarios, which follow from the seed of the test alone.

    Hypothesis draws one integer of twenty among the constants of all local modules that are imported so far,
    and another process has imported others. No module has constants of this size.
    """
    return st.integers(NO_CONSTANT, NO_CONSTANT + SEED_LIMIT - 1).map(lambda number: number - NO_CONSTANT)


@st.composite
def structured(
    draw: st.DrawFn,
    family: Family,
    records: st.SearchStrategy[dict[str, Any]] | None = None,
    fault_lists: st.SearchStrategy[tuple[Fault, ...]] | None = None,
) -> Scenario:
    """Return scenarios whose records, faults, schedule and settings are drawn one by one.

    Args:
        records: draws the records of each split; None draws some that the family generates.
        fault_lists: draws the faults; None draws up to four.
    """
    base = generate(family, draw(_seeds()))
    parallelism = st.integers(1, HIGHEST_PARALLELISM)
    scenario = replace(
        base,
        seed=None,
        records=_as_records(draw(_records(family) if records is None else records)),
        parallelism=draw(parallelism),
        max_parallelism=draw(st.sampled_from((4, 5, 7, 8, 128))),
        source_parallelism=draw(st.integers(0, 3)),
        sink_parallelism=draw(st.integers(0, HIGHEST_PARALLELISM)),
        channel_capacity=draw(st.integers(1, 4)),
        checkpoint_interval_ms=draw(st.integers(10, 60)),
        faults=draw(_sized(faults(unfit_kinds(family)), 0, 4) if fault_lists is None else fault_lists),
        schedule=draw(schedules()),
    )
    return with_ample_limits(scenario)


def _as_records(drawn: dict[str, Any]) -> dict[str, tuple[InputRecord, ...]]:
    return {split: tuple([(at, value) for at, value in records]) for split, records in drawn.items()}


def _sized(elements: st.SearchStrategy[Any], least: int, most: int) -> st.SearchStrategy[tuple[Any, ...]]:
    """Return tuples of every length from least to most, each as likely as the others."""
    return st.integers(least, most).flatmap(
        lambda size: st.lists(elements, min_size=size, max_size=size).map(tuple)
    )


@st.composite
def _records(draw: st.DrawFn, family: Family) -> dict[str, tuple[InputRecord, ...]]:
    """Return records made of values that the family itself draws, since only it knows what these mean."""
    material = workload_of(family, Random(draw(_seeds())))
    records = [record for split in material.records.values() for record in split]
    splits = list(material.records)[: draw(st.integers(1, 3))]
    if not records:
        return dict.fromkeys(splits, ())
    # Few different ones: what happens twice to the same key is what can go wrong.
    few = records[: draw(st.integers(1, 8))]
    return {split: draw(_sized(st.sampled_from(few), 0, 15)) for split in splits}


@st.composite
def faults(draw: st.DrawFn, unfit: frozenset[FaultKind] = frozenset()) -> Fault:
    """Return faults of the kinds that any job can suffer, but the unfit ones, wherever they make sense."""
    kind = draw(st.sampled_from([kind for kind in JOB_FAULTS if kind not in unfit]))
    row = FAULTS[kind]
    point = draw(st.sampled_from(row.points))
    rescale = st.sampled_from((0, 0, *range(1, HIGHEST_PARALLELISM + 1)))
    return Fault(
        kind,
        point,
        task=ANY_TASK,
        checkpoint=0 if row.strikes in ("commit", "abort") else draw(st.integers(0, 3)),
        occurrence=1
        if point in COORDINATOR_POINTS
        else draw(st.integers(1, 30 if point == "element" else 6)),
        after=draw(st.integers(0, 20)) if row.counts_passes else 0,
        delay=0 if row.delay == "none" else draw(st.integers(1, 150)),
        rescale_to=draw(rescale) if row.is_kill else 0,
    )


def schedules() -> st.SearchStrategy[Schedule]:
    """Return fair schedules, uniform ones by their seed, and priorities with few changes."""
    seeds = st.integers(0, 999_999)
    actions = st.sampled_from(ACTION_CLASSES)
    priorities = st.dictionaries(actions, st.integers(-2, 2), min_size=1, max_size=4)
    changes = _sized(st.tuples(st.integers(0, 300), actions, st.integers(-2, 2)), 0, 4)
    return st.one_of(
        st.just(Schedule()),
        seeds.map(lambda seed: Schedule("uniform", seed)),
        st.tuples(seeds, priorities, changes).map(lambda drawn: Schedule("priority", *drawn)),
    )
