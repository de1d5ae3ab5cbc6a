"""The check of a family in a process of its own: a scenario that never answers is a mistake like others.

The rules this module lives by:

- The process checks one scenario after another, and notes each before it begins (supervision.py).
- What is found is what ``mistakes_of`` finds: one mistake for each member, in the order of the scenarios.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Final

import msgspec

from onceproof.harness.model.budget import Budget
from onceproof.harness.model.family import Family, source_file
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.systems.simulation.stopping import Stopped, stopped_in_time
from onceproof.harness.trials.family_mistakes import FEW_SCENARIOS, FamilyMistake, distinct, mistakes_in
from onceproof.harness.trials.pool import Batch, Done, Start, WorkerPool, error_of, raise_error_of
from onceproof.harness.trials.supervision import Lost, Notes, end_out_of_memory, is_out_of_memory, lost_by
from onceproof.harness.trials.trial import SIMULATED, scenario_of

_decoder: Final = msgspec.json.Decoder(list[FamilyMistake])


def supervised_mistakes(
    address: str,
    seed: int,
    scenarios: int = FEW_SCENARIOS,
    parallelisms: Sequence[int] = (),
    budget: Budget = Budget(),  # noqa: B008
) -> list[FamilyMistake]:
    """Return the mistakes of a family, one for each member; see ``mistakes_of``.

    Args:
        address: by which another process finds the family.
        budget: what each scenario may use.

    Raises:
        FamilyError, WorkerDied, WorkerFailed: the family, or a process, failed.
    """
    found: list[FamilyMistake] = []
    start = Start(seed, (address,), SIMULATED.name, checks=tuple(parallelisms), budget=budget)
    with WorkerPool(1, start, lambda line: None) as pool:
        for done in pool.run(iter([Batch(0, scenarios)])):
            raise_error_of([done])
            for line in done.lines:
                found += _decoder.decode(line)
    return distinct(found)


def _mistake_of(lost: Lost, seed: int) -> FamilyMistake:
    """Return a scenario that gave no outcome as a mistake."""
    member = "job" if lost.is_generated else "generate"
    operator = f", in {lost.operator}" if lost.operator else ""
    inside = f", in {', called by '.join(lost.stack)}" if lost.stack else ""
    return FamilyMistake(member, f"seed {seed}: {lost.anomaly}, during {lost.during}{operator}{inside}")


def check_batch(family: Family, seed: int, batch: Batch, parallelisms: Sequence[int], notes: Notes) -> Done:
    """Check the scenarios of a batch, up to the first error."""
    started = perf_counter()
    lines: list[bytes] = []
    errors = ("", "")
    notes.begin_batch()
    lost_by_place = {lost.place: lost for lost in batch.lost}
    try:
        for place, number in enumerate(range(batch.first, batch.first + batch.count)):
            drawn = scenario_seed(seed, family.name, number)
            if (lost := lost_by_place.get(place)) is not None:
                mistakes = [_mistake_of(lost, drawn)]
            else:
                notes.begin(place)
                scenario = scenario_of(family, drawn)
                notes.generated(place)
                try:
                    with stopped_in_time(source_file(family)):
                        mistakes = list(mistakes_in(family, scenario, parallelisms))
                except Stopped as stopped:
                    mistakes = [_mistake_of(lost_by(stopped, is_generated=True), drawn)]
                notes.idle()
            lines.append(msgspec.json.encode(mistakes))
    except Exception as error:
        if is_out_of_memory(error):
            end_out_of_memory()
        errors = error_of(error, batch)
    return Done(batch.first, tuple(lines), perf_counter() - started, *errors)
