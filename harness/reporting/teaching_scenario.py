"""Chooses the example scenario with which a report explains its diagrams, and converts traces for drawing.

The rules this module lives by:

- The example is a scenario of the run, replayed from its seed in the simulation.
- It passes, has one kill and a rescale, if possible a restore from a checkpoint, few lanes and few steps.
- The choice does not depend on the order of outcomes.
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
"""Number of steps that make a diagram as much longer to read as one lane."""

_DRAWN: Final = frozenset(get_args(MarkKind))


def trace_of(history: History) -> Trace:
    """Return the part of a run's trace that a diagram draws."""
    trace: dict[str, Any] = dict(history.trace or {})
    trace.pop("faults", None)
    trace["marks"] = [mark for mark in trace.get("marks", ()) if mark["kind"] in _DRAWN]
    return msgspec.convert(trace, Trace)


def teaching_example(result: RunResult) -> Example | None:
    """Return the passing scenario that is easiest to read, or None if no candidate has a kill."""
    best: tuple[tuple[bool, int, str, int], Scenario, Trial] | None = None
    for _, name, seed in result.tally.examples:
        family = result.family(name)
        scenario = scenario_of(family, seed)
        trial = try_scenario(family, scenario, trace=True, twice=False)
        if not trial.verdict.passed or _kill_in(trial.history) is None:
            continue
        started = [payload for _, kind, _, payload in trial.history.events if kind == ATTEMPT_STARTED]
        lanes = len((trial.history.trace or {"lanes": ()})["lanes"])
        # An attempt without a checkpoint is a weaker example, but better than none.
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
    """Return the step and the point of the first kill, or None."""
    for step, kind, subject, payload in history.events:
        if kind == FAULT_FIRED and subject in KILLS:
            return step, payload["point"]
    return None


def _sentence(history: History) -> str:
    """Return a sentence that describes the example."""
    attempts = [payload for _, kind, _, payload in history.events if kind == ATTEMPT_STARTED]
    kill = _kill_in(history)
    assert kill is not None
    step, point = kill
    before, after = attempts[0]["parallelism"], attempts[-1]["parallelism"]
    restored = attempts[-1]["restored"]
    replayed = counted(history.statistics.records_replayed, "record")
    origin = "a restart from the beginning" if restored is None else f"a restore of checkpoint {restored}"
    return (
        f"a kill at step {step} (at the point {words(point)}), then {origin}"
        f" with parallelism {after} instead of {before}, and {replayed} read again."
    )
