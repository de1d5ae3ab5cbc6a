"""Scenarios whose user asks for less: without a request, earlier, or with less about how the job goes on.

The rules this module lives by:

- A candidate is a valid scenario: a rescale keeps a parallelism, which is lowered one by one.
- The cost of a scenario (`reductions.py`) falls with each of them, so the shrinker takes what still fails.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.model.scenario import ANY_TASK, Operation, Scenario


def fewer_operations(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenario with no requested operations, with all but one, and with simpler ones."""
    asked = scenario.asked
    if not asked:
        return
    yield replace(scenario, operations=UNSET)
    for index, operation in enumerate(asked):
        if len(asked) > 1:
            yield replace(scenario, operations=(*asked[:index], *asked[index + 1 :]))
        for simpler in (
            replace(operation, after=0),
            replace(operation, after=operation.after // 2),
            *_simpler_ways_on(operation),
            replace(operation, occurrence=max(1, operation.occurrence // 2)),
        ):
            if simpler != operation:
                yield replace(scenario, operations=(*asked[:index], simpler, *asked[index + 1 :]))


def _simpler_ways_on(operation: Operation) -> Iterator[Operation]:
    """Yield a request with less about how the job goes on behind it; a rescale keeps a parallelism."""
    if operation.kind != "rescale":
        yield replace(operation, parallelism=0, state_backend=None, claims=False)
        return
    for lower in range(1, operation.parallelism):
        yield replace(operation, parallelism=lower)
    if operation.task != ANY_TASK:
        yield replace(operation, task=ANY_TASK)
    if operation.checkpoint:
        yield replace(operation, checkpoint=0)
