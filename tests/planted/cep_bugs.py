"""Planted bugs in patterns on streams, found by the example family ``scenarios/patterns/drawn_patterns.py``.

They are no theme of the catalogue: its runs measure the built-in families.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from onceproof.engine.cep.automaton import NO_NODE, Automaton, MatchState
from onceproof.engine.cep.matching import Matching
from onceproof.engine.cep.pattern_operator import CepOperator
from onceproof.engine.cep.skipping import SKIP_PAST_LAST_EVENT, AfterMatchSkipStrategy
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant

FAMILY: Final = str(Path(__file__).parents[2] / "scenarios" / "patterns" / "drawn_patterns.py")


@mutant(
    id="restored-matches-begin-anew",
    breaks="exactly_once",
    summary="the first key with matches under way that a restored operator meets has lost them",
    families=(FAMILY,),
)
def restored_matches_begin_anew(reached: Reached) -> Iterator[None]:
    """Its waiting events are still there."""
    open_operator, load = CepOperator.open, Matching._load

    def opening(self: Any, context: Any) -> None:
        open_operator(self, context)
        self._matching.is_restored = context.restored_checkpoint_id is not None

    def forgetting(self: Any) -> Any:
        state = load(self)
        if self.is_restored:
            self.is_restored = False
            if state.nodes:
                reached()
                return self._automaton.load(None, self._states.events)
        return state

    with replaced(CepOperator, "open", opening), replaced(Matching, "_load", forgetting):
        yield


@mutant(
    id="events-of-matches-are-numbered-anew",
    breaks="exactly_once",
    summary="new events are numbered from how many are kept, so that two may have the same number",
    families=(FAMILY,),
)
def events_are_numbered_anew(reached: Reached) -> Iterator[None]:
    """A new event then takes the place of an older one, or counts as one that came before it."""
    store = MatchState.store

    def counting(self: Any) -> Any:
        data = store(self)
        if data is None:
            return None
        partials, completed, nodes, next_event, next_node = data
        kept = len({event for _, event, _ in nodes.values()})
        if kept < next_event:
            reached()
        return partials, completed, nodes, kept, next_node

    with replaced(MatchState, "store", counting):
        yield


@mutant(
    id="match-has-no-timer-at-its-end",
    breaks="exactly_once",
    summary="no timer ends a match that runs out of time; only another event of its key does",
    families=(FAMILY,),
)
def match_has_no_timer(reached: Reached) -> Iterator[None]:
    """The last matches of a key are never known to have run out of time."""
    match = Matching._match

    def forgetting(self: Any, state: Any, time: int, events: Any) -> None:
        wake_at = self._wake_at
        self._wake_at = lambda at: reached()
        match(self, state, time, events)
        self._wake_at = wake_at

    with replaced(Matching, "_match", forgetting):
        yield


@mutant(
    id="match-may-begin-with-the-last-event-of-another",
    breaks="exactly_once",
    summary="a match that skips past its last event keeps those that begin with this event",
    families=(FAMILY,),
)
def match_may_begin_with_the_last_event(reached: Reached) -> Iterator[None]:
    """The event is in two matches."""
    prunes_before = AfterMatchSkipStrategy.prunes_before

    def one_less(self: Any, match: Any) -> int | None:
        before = prunes_before(self, match)
        if self.kind != SKIP_PAST_LAST_EVENT or before is None:
            return before
        reached()
        return before - 1

    with replaced(AfterMatchSkipStrategy, "prunes_before", one_less):
        yield


@mutant(
    id="match-may-take-all-of-its-time",
    breaks="exactly_once",
    summary="a match runs out of time a moment too late, after its whole time has passed",
    families=(FAMILY,),
)
def match_may_take_all_of_its_time(reached: Reached) -> Iterator[None]:
    """An event exactly at the end still completes it."""

    def over(self: Any, each: Any, now: int, since: int, window_ms: int) -> bool:
        if each.node == NO_NODE or window_ms <= 0:
            return False
        if now - since == window_ms:
            reached()
        return now - since > window_ms

    with replaced(Automaton, "_over", over):
        yield


@mutant(
    id="restored-events-come-in-any-order",
    breaks="exactly_once",
    summary="a restored operator does not sort events of the same time",
    families=(FAMILY,),
)
def restored_events_come_in_any_order(reached: Reached) -> Iterator[None]:
    """They are matched in the order in which they came."""
    open_operator = CepOperator.open

    def opening(self: Any, context: Any) -> None:
        open_operator(self, context)
        if context.restored_checkpoint_id is not None:
            self._matching._sort = lambda events: (reached() if len(events) > 1 else None) or events

    with replaced(CepOperator, "open", opening):
        yield
