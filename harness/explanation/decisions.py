"""What it takes for a scenario to fail: its decisions, each left out and the rest run again.

The rules this module lives by:

- A decision is what somebody who writes a test would have to ask for: a fault, another parallelism after it,
  a choice of the schedule that a fair one would not have made. Records and settings are the stage, not the
  plot.
- A decision matters if every property holds without it. Nothing is guessed: each is left out in turn, and the
  scenario run again as it is judged everywhere else.
- That one does not matter is told as well: two may each do for the other, and a scenario that was not shrunk
  has many that do nothing.
- A schedule that draws its steps, or lists more choices than anybody reads, is one decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.checkers import Signature
from onceproof.harness.explanation.descriptions import (
    change_text,
    choice_text,
    fault_text,
    operation_text,
    priority_text,
)
from onceproof.harness.model.scenario import Scenario, Schedule
from onceproof.reports.text import counted

Fails: TypeAlias = Callable[[Scenario], Signature | None]
"""Runs a scenario; the signature of its failure, or None if it passes."""
Effect: TypeAlias = Literal["matters", "changes", "idle"]

MOST_CHOICES: Final = 12
FEW_PRIORITIES: Final = 2


@dataclass(frozen=True, slots=True)
class Decision:
    """One thing that was decided in a scenario, and the scenario without it."""

    text: str
    without: Scenario


@dataclass(frozen=True, slots=True)
class Weighed:
    """A decision, and what becomes of the scenario without it."""

    text: str
    effect: Effect
    """matters: every property holds. changes: it fails in another way. idle: it fails in the same way."""
    otherwise: Signature | None = None
    """How it fails without the decision, where it ``changes``."""


@dataclass(frozen=True, slots=True)
class Takes:
    """All decisions of a scenario, in their order: faults, then the schedule."""

    decisions: tuple[Weighed, ...] = ()

    @property
    def is_minimal(self) -> bool:
        """Whether none can be left out while the scenario fails as it does."""
        return all(decision.effect != "idle" for decision in self.decisions)

    @property
    def sentence(self) -> str:
        """What the decisions come to, in a sentence."""
        weighed = self.decisions
        if not weighed:
            return "Nothing has to go wrong for it: no fault strikes, and the schedule is the fair one."
        count = {effect: sum(each.effect == effect for each in weighed) for effect in _WORDS}
        matter, idle = count["matters"], count["idle"]
        if matter == len(weighed):
            if matter == 1:
                return "It takes this one decision: without it every property holds."
            return f"It takes all {matter} of these decisions: without any one of them every property holds."
        told = [
            f"{matter} of {len(weighed)} decisions {'matters' if matter == 1 else 'matter'}: without"
            f" {'it' if matter == 1 else 'any one of them'} every property holds."
            if matter
            else f"None of {counted(len(weighed), 'decision')} matters by itself."
        ]
        if changes := count["changes"]:
            told.append(f"Without {changes} it fails in another way.")
        if idle:
            told.append(f"{idle} {'does' if idle == 1 else 'do'} not matter, so the scenario is not minimal.")
        return " ".join(told)


_WORDS: Final[dict[Effect, str]] = {
    "matters": "matters",
    "changes": "changes it",
    "idle": "does not matter",
}


def takes_lines(takes: Takes) -> Iterator[str]:
    """Yield what a scenario takes, for the terminal."""
    yield takes.sentence
    width = max((len(_WORDS[decision.effect]) for decision in takes.decisions), default=0)
    for decision in takes.decisions:
        otherwise = f"; without it: {', '.join(decision.otherwise)}" if decision.otherwise else ""
        yield f"{_WORDS[decision.effect]:<{width}}  {decision.text}{otherwise}"


def decisions_of(scenario: Scenario) -> Iterator[Decision]:
    """Yield each decision of a scenario with the scenario without it."""
    for index, fault in enumerate(scenario.faults):
        before, after = scenario.faults[:index], scenario.faults[index + 1 :]
        yield Decision(fault_text(fault), replace(scenario, faults=(*before, *after)))
        if fault.rescale_to:
            staying = replace(fault, rescale_to=0)
            text = f"that the job then runs with parallelism {fault.rescale_to}"
            yield Decision(text, replace(scenario, faults=(*before, staying, *after)))
    for index, operation in enumerate(scenario.asked):
        rest = (*scenario.asked[:index], *scenario.asked[index + 1 :])
        yield Decision(operation_text(operation), replace(scenario, operations=rest or UNSET))
    for text, schedule in _of_schedule(scenario.schedule):
        yield Decision(text, replace(scenario, schedule=schedule))


def weigh(scenario: Scenario, signature: Signature, fails: Fails) -> Takes:
    """Run a scenario that fails with the signature without each of its decisions in turn."""
    weighed = []
    for decision in decisions_of(scenario):
        found = fails(decision.without)
        if found is None:
            weighed.append(Weighed(decision.text, "matters"))
        elif found == signature:
            weighed.append(Weighed(decision.text, "idle"))
        else:
            weighed.append(Weighed(decision.text, "changes", found))
    return Takes(tuple(weighed))


def _of_schedule(schedule: Schedule) -> Iterator[tuple[str, Schedule]]:
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
            text = f"that chance decides between equals, with seed {schedule.seed}"
            yield text, replace(schedule, seed=0)
