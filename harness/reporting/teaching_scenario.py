"""The scenario on which a report teaches reading its diagrams, and traces as a report draws them.

The rules this module lives by:

- The example comes from the run itself and is replayed from its seed, like everything that is drawn.
- What ran on another system is drawn as the simulation runs it, if the kill strikes there, too.
- It is a passing scenario with one kill and a rescale, if possible restored from a checkpoint, on few lanes
  and in few steps; which one does not depend on the order in which outcomes came.
"""

from __future__ import annotations

from typing import Any, Final, get_args

import msgspec

from onceproof.harness.explanation.descriptions import replay_command
from onceproof.harness.explanation.explanation import explain
from onceproof.harness.model.faults import KILLS
from onceproof.harness.model.history import ATTEMPT_STARTED, FAULT_FIRED, History
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.trials.runner import RunResult
from onceproof.harness.trials.trial import Trial, scenario_of, try_scenario
from onceproof.reports.model import Example, Trace
from onceproof.reports.text import counted, words
from onceproof.reports.trace import MarkKind

LANE_STEPS: Final = 15
"""So many more steps make a diagram as much harder to read as one lane more."""

_DRAWN: Final = frozenset(get_args(MarkKind))


def trace_of(history: History) -> Trace:
    """Return a run's trace as far as it is drawn."""
    trace: dict[str, Any] = dict(history.trace or {})
    trace.pop("faults", None)
    trace["marks"] = [mark for mark in trace.get("marks", ()) if mark["kind"] in _DRAWN]
    return msgspec.convert(trace, Trace)


def teaching_example(result: RunResult) -> Example | None:
    """Return the passing scenario that reads best: restored from a checkpoint, few lanes, few steps."""
    best: tuple[tuple[bool, int, str, int], Scenario, Trial] | None = None
    for _, name, seed in result.tally.examples:
        family = result.family(name)
        scenario = scenario_of(family, seed)
        trial = try_scenario(family, scenario, trace=True, twice=False)
        if not trial.verdict.passed or _kill_in(trial.history) is None:
            continue
        started = [payload for _, kind, _, payload in trial.history.events if kind == ATTEMPT_STARTED]
        lanes = len((trial.history.trace or {"lanes": ()})["lanes"])
        # A restore from nothing teaches less, but more than no example.
        from_nothing = started[-1]["restored"] is None
        key = (from_nothing, lanes * LANE_STEPS + trial.history.statistics.steps, name, seed)
        if best is None or key < best[0]:
            best = (key, scenario, trial)
    if best is None:
        return None
    (_, _, name, seed), scenario, trial = best
    history = trial.history
    return Example(
        family=name,
        trace=trace_of(history),
        replay=f"{replay_command(seed, result.asked_for(name))} --trace",
        sentence=_sentence(history),
        story=tuple(explain(scenario, history, history.trace, trial.verdict).story),
    )


def _kill_in(history: History) -> tuple[int, str] | None:
    """Return the step and the point of the first kill; None where there is none."""
    for step, kind, subject, payload in history.events:
        if kind == FAULT_FIRED and subject in KILLS:
            return step, payload["point"]
    return None


def _sentence(history: History) -> str:
    """Tell what happens in the example."""
    attempts = [payload for _, kind, _, payload in history.events if kind == ATTEMPT_STARTED]
    kill = _kill_in(history)
    assert kill is not None
    step, point = kill
    before, after = attempts[0]["parallelism"], attempts[-1]["parallelism"]
    restored = attempts[-1]["restored"]
    replayed = counted(history.statistics.records_replayed, "record")
    origin = "a start from nothing" if restored is None else f"a restore of checkpoint {restored}"
    return (
        f"a kill at step {step} (at the point {words(point)}), then {origin}"
        f" with parallelism {after} instead of {before}, and {replayed} read again."
    )
