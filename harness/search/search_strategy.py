"""What a strategy of a search is, and what it learns of each scenario that was run.

The rules this module lives by:

- A strategy draws only from the ``Random`` that it is given, and learns only from ``observe``: the same seed
  and the same observations give the same scenarios.
- It knows families and scenarios, nothing of what stands trial, and nothing of verdicts.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple, Protocol

from onceproof.harness.checkers.protocol_states import protocol_states_of
from onceproof.harness.checkers.situations import situations_of
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario


class Reached(NamedTuple):
    """What the run of a scenario reached."""

    situations: frozenset[str]
    faults: frozenset[str]
    """The faults that fired, as "kind/point"."""
    states: frozenset[int]
    """The abstract states of the protocol."""


class Strategy(Protocol):
    """One way to choose scenarios."""

    watches: bool
    """Whether it learns from what scenarios reach; if not, ``observe`` need not be called."""

    def next(self, random: Random) -> Scenario:
        """Return the scenario to run next."""

    def observe(self, scenario: Scenario, reached: Reached) -> None:
        """Learn what the scenario reached that ``next`` has returned last."""


def reached_in(scenario: Scenario, history: History) -> Reached:
    """Return what a run reached."""
    fired = frozenset([f"{kind}/{point}" for kind, point in history.statistics.coverage])
    return Reached(frozenset(situations_of(scenario, history)), fired, protocol_states_of(history))
