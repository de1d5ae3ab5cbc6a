"""Which decisions of a failing scenario matter: each is left out in turn, and the rest is run again.

The rules this module lives by:

- A decision is a fault, a request of the user, what the job is restarted with after either of them, a choice
  of the schedule that a fair schedule would not make, or a setting of the job that is not the default: the
  checkpoint mode, the state backend, the buffers, the watermark interval, sources without an end. Records and
  the other settings are not decisions.
- A decision matters if every property holds without it. Each result is measured: the scenario is run again
  without the decision, and judged by all checkers.
- A shrunk scenario loses each decision without which it fails in the same way, one at a time. In one that was
  not shrunk they are listed as well.
- A schedule that is drawn from a seed, or lists more than MOST_CHOICES choices, counts as one decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.checkers.checker import RunForSignature, Signature
from onceproof.harness.explanation.descriptions import (
    change_text,
    choice_text,
    fault_text,
    operation_text,
    priority_text,
)
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.job_settings import ALIGNED, CheckpointMode
from onceproof.harness.model.scenario import USUAL_WATERMARK_INTERVAL_MS, Operation, Scenario, Schedule
from onceproof.reports.text import counted

Effect: TypeAlias = Literal["matters", "changes", "idle"]

MOST_CHOICES: Final = 12
"""A longer list of preemptions counts as one decision."""
FEW_PRIORITIES: Final = 2
"""A schedule with more priorities counts as one decision."""


Kind: TypeAlias = Literal["restart", "parallelism", "savepoint", "fault", "order", "setting"]
"""What a decision does to the job: restarts it, changes its parallelism, takes a savepoint while it runs,
disturbs it in another way, orders its steps, or configures it."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision of a scenario in words, and the scenario without it."""

    text: str
    without: Scenario
    kind: Kind


@dataclass(frozen=True, slots=True)
class DecisionEffect:
    """A decision, and what happens when the scenario is run without it."""

    decision: Decision
    effect: Effect
    """matters: every property holds. changes: another signature. idle: the same signature."""
    otherwise: Signature | None = None
    """The signature without the decision, if the effect is ``changes``."""

    @property
    def text(self) -> str:
        """Return the decision in words."""
        return self.decision.text


@dataclass(frozen=True, slots=True)
class DecisionEffects:
    """The effects of all decisions of a scenario: faults, requests, schedule, settings."""

    decisions: tuple[DecisionEffect, ...] = ()

    @property
    def sentence(self) -> str:
        """Return a summary of the effects, in one to three sentences."""
        decisions = self.decisions
        if not decisions:
            return "The failure needs no fault and no special schedule: it happens under the fair schedule."
        count = {effect: sum(each.effect == effect for each in decisions) for effect in _EFFECT_TEXTS}
        matter, idle = count["matters"], count["idle"]
        if matter == len(decisions):
            if matter == 1:
                return "The failure needs this decision: without it every property holds."
            return f"The failure needs all {matter} decisions: without any one of them every property holds."
        sentences = [
            f"{matter} of {len(decisions)} decisions {'matters' if matter == 1 else 'matter'}: without"
            f" {'it' if matter == 1 else 'any one of them'} every property holds."
            if matter
            else f"None of {counted(len(decisions), 'decision')} matters by itself."
        ]
        if changes := count["changes"]:
            sentences.append(f"Leaving out {changes} changes how the run fails.")
        if idle:
            sentences.append(
                f"{idle} {'does' if idle == 1 else 'do'} not matter, so the scenario is not minimal."
            )
        return " ".join(sentences)


_EFFECT_TEXTS: Final[dict[Effect, str]] = {
    "matters": "matters",
    "changes": "changes it",
    "idle": "does not matter",
}


def decision_lines(effects: DecisionEffects) -> Iterator[str]:
    """Yield the summary and a line for each decision, for the terminal."""
    yield effects.sentence
    width = max((len(_EFFECT_TEXTS[decision.effect]) for decision in effects.decisions), default=0)
    for decision in effects.decisions:
        otherwise = f"; without it: {', '.join(decision.otherwise)}" if decision.otherwise else ""
        yield f"{_EFFECT_TEXTS[decision.effect]:<{width}}  {decision.text}{otherwise}"


def decisions_of(scenario: Scenario) -> Iterator[Decision]:
    """Yield each decision of a scenario with the scenario without it."""
    for index, fault in enumerate(scenario.faults):
        before, after = scenario.faults[:index], scenario.faults[index + 1 :]
        kind: Kind = "restart" if FAULTS[fault.kind].is_kill else "fault"
        yield Decision(fault_text(fault), replace(scenario, faults=(*before, *after)), kind)
        if fault.rescale_to:
            without_rescale = replace(fault, rescale_to=0)
            text = f"the restart with parallelism {fault.rescale_to} after it"
            yield Decision(text, replace(scenario, faults=(*before, without_rescale, *after)), "parallelism")
    for index, operation in enumerate(scenario.asked):
        first, rest = scenario.asked[:index], scenario.asked[index + 1 :]
        kind = "savepoint" if operation.kind == "savepoint" else "restart"
        without = replace(scenario, operations=(*first, *rest) or UNSET)
        yield Decision(operation_text(operation), without, kind)
        for text, simpler, kind in _ways_on(operation):
            yield Decision(text, replace(scenario, operations=(*first, simpler, *rest)), kind)
    for text, schedule in _schedule_decisions(scenario.schedule):
        yield Decision(text, replace(scenario, schedule=schedule), "order")
    for text, without in _setting_decisions(scenario):
        yield Decision(text, without, "setting")


def measure_decisions(
    scenario: Scenario,
    signature: Signature,
    run: RunForSignature,
    as_run: Callable[[Scenario], Scenario] = lambda scenario: scenario,
) -> DecisionEffects:
    """Run a failing scenario again without each of its decisions in turn.

    Args:
        signature: how the scenario fails.
        run: runs a scenario and returns its signature, or None if it passes.
        as_run: returns a scenario with what the system decides itself, which is no decision of it.
    """
    effects = []
    for decision in decisions_of(scenario):
        if as_run(decision.without) == scenario:
            continue
        found = run(decision.without)
        effect: Effect = "matters" if found is None else "idle" if found == signature else "changes"
        effects.append(DecisionEffect(decision, effect, found if effect == "changes" else None))
    return DecisionEffects(tuple(effects))


def _ways_on(operation: Operation) -> Iterator[tuple[str, Operation, Kind]]:
    """Yield what a request says about how the job runs afterwards, with the request that does not say it."""
    if operation.kind == "rescale":
        return
    if operation.parallelism:
        text = f"the restart with parallelism {operation.parallelism} after it"
        yield text, replace(operation, parallelism=0), "parallelism"
    if operation.state_backend:
        text = f"the restart on the backend {operation.state_backend} after it"
        yield text, replace(operation, state_backend=None), "setting"
    if operation.claims:
        yield "that the job may delete its savepoint", replace(operation, claims=False), "setting"


def _setting_decisions(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    """Yield each setting that is not the default, with the scenario in which it is."""
    mode = scenario.checkpoint_mode
    if mode.barriers != "aligned":
        aligned = CheckpointMode(max_concurrent=mode.max_concurrent, min_pause_ms=mode.min_pause_ms)
        text = "unaligned" if mode.barriers == "unaligned" else "at-least-once"
        yield f"{text} checkpoints", _with_mode(scenario, aligned)
    if mode.aligned_timeout_ms:
        text = f"{mode.aligned_timeout_ms:,} ms of alignment before a checkpoint becomes unaligned"
        yield text, _with_mode(scenario, replace(mode, aligned_timeout_ms=0))
    if mode.max_concurrent > 1:
        text = f"up to {mode.max_concurrent} checkpoints at a time"
        yield text, _with_mode(scenario, replace(mode, max_concurrent=1))
    if mode.min_pause_ms:
        text = f"{mode.min_pause_ms:,} ms between two checkpoints"
        yield text, _with_mode(scenario, replace(mode, min_pause_ms=0))
    if scenario.state_backend == "rocksdb":
        yield "keyed state in a database", replace(scenario, state_backend=UNSET, incremental=UNSET)
    if scenario.incremental is True:
        yield "incremental checkpoints", replace(scenario, incremental=UNSET)
    if scenario.watermark_interval != USUAL_WATERMARK_INTERVAL_MS:
        text = f"watermarks every {scenario.watermark_interval} ms"
        yield text, replace(scenario, watermark_interval_ms=UNSET)
    if scenario.most_buffer_records > 1:
        text = f"up to {scenario.most_buffer_records} records at a time"
        yield text, replace(scenario, buffer_records=UNSET)
    if scenario.started_ms is not UNSET:
        date = datetime.fromtimestamp(scenario.starts_at_ms / 1000, UTC)
        yield f"a clock that starts at {date:%Y-%m-%d %H:%M} UTC", replace(scenario, started_ms=UNSET)
    if scenario.restarts is not UNSET:
        yield f"a restart strategy of {scenario.restarts}", replace(scenario, restarts=UNSET)
    if scenario.leaves_max_parallelism is True:
        text = "a maximum parallelism that restarted processes take from the checkpoint"
        yield text, replace(scenario, leaves_max_parallelism=UNSET)
    if not scenario.takes_checkpoints:
        yield "a job that takes no checkpoints", replace(scenario, without_checkpoints=UNSET)
    if scenario.is_endless:
        yield "sources without an end", replace(scenario, endless=UNSET)


def _with_mode(scenario: Scenario, mode: CheckpointMode) -> Scenario:
    return replace(scenario, mode=UNSET if mode == ALIGNED else mode)


def _schedule_decisions(schedule: Schedule) -> Iterator[tuple[str, Schedule]]:
    """Yield each decision of a schedule with the schedule without it."""
    if schedule.kind == "uniform":
        yield f"the order of all steps, drawn with seed {schedule.seed}", Schedule()
    elif schedule.kind == "preemptions":
        choices = schedule.preemptions
        if len(choices) > MOST_CHOICES:
            yield (
                f"the order of steps: {len(choices):,} choices that a fair schedule would not make",
                Schedule(),
            )
            return
        for index, (step, label) in enumerate(choices):
            rest = (*choices[:index], *choices[index + 1 :])
            yield choice_text(step, label), replace(schedule, preemptions=rest)
    elif schedule.kind == "priority":
        if len(schedule.priorities) > FEW_PRIORITIES:
            yield f"the order of all kinds of steps, by priorities and with seed {schedule.seed}", Schedule()
            return
        for action, priority in schedule.priorities.items():
            rest_of = {each: value for each, value in schedule.priorities.items() if each != action}
            yield priority_text(action, priority), replace(schedule, priorities=rest_of)
        for index, change in enumerate(schedule.changes):
            changes = (*schedule.changes[:index], *schedule.changes[index + 1 :])
            yield change_text(*change), replace(schedule, changes=changes)
        if schedule.seed:
            text = f"the random choice between equal priorities, with seed {schedule.seed}"
            yield text, replace(schedule, seed=0)
