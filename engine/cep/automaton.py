"""The automaton: matches that are under way, and what an event makes of them (Flink: NFA, SharedBuffer).

Rules:

- A partial match is a state, the node of its last event, and the times and the id of its events. There is
  always one at the start state, without events.
- For an event the ways from the state of each partial match are found: PROCEED is followed at once, each TAKE
  and each IGNORE makes a partial match. A way to a Stop state discards all that came of the partial match. A
  TAKE whose target can proceed to the Final state completes it, too.
- Events are stored once. Nodes (pattern, event, node before) form a tree that partial matches share; where
  Flink tells the ways through one node apart by versions, each way has a node of its own here. When the state
  is stored, what no match refers to is dropped.
- Matches come in the order of their first events. With a skip strategy a complete match waits until no
  partial match has an earlier first event; then it discards others by the strategy. Among equals the order is
  that of Java's PriorityQueue.
- A partial match times out when as much time as its window has passed since its first event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from onceproof.engine.cep.compiler import (
    FINAL,
    IGNORE,
    PENDING,
    PROCEED,
    STOP,
    Compiler,
    State,
    Transition,
)
from onceproof.engine.cep.pattern import Pattern
from onceproof.engine.cep.skipping import AfterMatchSkipStrategy

Match: TypeAlias = dict[str, list[Any]]
"""The events of a match by pattern, in order."""

NO_NODE: Final = -1
NO_EVENT: Final = 1 << 62
"""Of the match that has not started; it is behind all others."""


class Partial(NamedTuple):
    """A match under way, or complete."""

    state: str
    node: int = NO_NODE
    first_event: int = NO_EVENT
    started_at: int = 0
    previous_at: int = 0


class MatchQueue:
    """Partial matches by first event, with the order of Java's PriorityQueue among equals."""

    __slots__ = ("items",)

    def __init__(self, items: Iterable[Partial] = ()) -> None:
        self.items = list(items)

    def add(self, item: Partial) -> None:
        """Add a match."""
        items = self.items
        items.append(item)
        place = len(items) - 1
        while place > 0:
            parent = (place - 1) >> 1
            if item.first_event >= items[parent].first_event:
                break
            items[place] = items[parent]
            place = parent
        items[place] = item

    def poll(self) -> Partial:
        """Remove the first match."""
        first, last = self.items[0], self.items.pop()
        if self.items:
            self._sift_down(0, last)
        return first

    def discard(self, discards: Callable[[Partial], bool]) -> None:
        """Remove matches."""
        kept = [each for each in self.items if not discards(each)]
        if len(kept) < len(self.items):
            self.items = kept
            for place in range((len(kept) >> 1) - 1, -1, -1):
                self._sift_down(place, kept[place])

    def _sift_down(self, place: int, item: Partial) -> None:
        items = self.items
        size = len(items)
        while place < size >> 1:
            child = 2 * place + 1
            if child + 1 < size and items[child].first_event > items[child + 1].first_event:
                child += 1
            if item.first_event <= items[child].first_event:
                break
            items[place] = items[child]
            place = child
        items[place] = item


class EventStore(Protocol):
    """The events of a key that matches under way refer to, by id: a map state."""

    def get(self, key: int) -> Any:
        """Return an event."""
        ...

    def put(self, key: int, value: Any) -> None:
        """Keep an event."""
        ...

    def remove(self, key: int) -> None:
        """Drop an event."""
        ...


class MatchState:
    """All matches of a key; ``store`` makes it plain data, and None where nothing is under way."""

    __slots__ = (
        "_kept",
        "_store",
        "completed",
        "has_started",
        "new_events",
        "next_event",
        "next_node",
        "nodes",
        "partials",
    )

    def __init__(self, start: str, data: Any, store: EventStore) -> None:
        self.partials = MatchQueue([Partial(start)])
        self.completed = MatchQueue()
        self.nodes: dict[int, tuple[str, int, int]] = {}
        self.new_events: dict[int, Any] = {}
        self.has_started = False
        """Whether a match has started since the state was loaded."""
        self._store = store
        self.next_event = self.next_node = 0
        if data is not None:
            partials, completed, nodes, self.next_event, self.next_node = data
            self.partials = MatchQueue([Partial(*each) for each in partials])
            self.completed = MatchQueue([Partial(*each) for each in completed])
            self.nodes = dict(nodes)
        self._kept = {event for _, event, _ in self.nodes.values()}

    def event(self, event_id: int) -> Any:
        """Return an event by its id."""
        return self.new_events[event_id] if event_id in self.new_events else self._store.get(event_id)

    def store(self) -> Any:
        """Return the state as it is stored, and keep the events that a match refers to and no others."""
        matches = [*self.partials.items, *self.completed.items]
        reached: dict[int, tuple[str, int, int]] = {}
        for each in matches:
            node = each.node
            while node != NO_NODE and node not in reached:
                reached[node] = self.nodes[node]
                node = self.nodes[node][2]
        kept = {event for _, event, _ in reached.values()}
        for event in sorted(self._kept - kept):
            self._store.remove(event)
        for event in sorted(kept - self._kept):
            self._store.put(event, self.new_events[event])
        if not reached:
            return None
        plain = [tuple(each) for each in self.partials.items], [tuple(each) for each in self.completed.items]
        return (*plain, reached, self.next_event, self.next_node)

    def path(self, node: int) -> list[tuple[str, int]]:
        """Return the patterns and event ids of a match, first one first."""
        path = []
        while node != NO_NODE:
            pattern, event, node = self.nodes[node]
            path.append((pattern, event))
        path.reverse()
        return path

    def ids(self, node: int) -> dict[str, list[int]]:
        """Return the event ids of a match by pattern."""
        ids: dict[str, list[int]] = {}
        for pattern, event in self.path(node):
            ids.setdefault(pattern, []).append(event)
        return ids

    def match(self, node: int) -> Match:
        """Return the events of a match by pattern."""
        return {name: [self.event(each) for each in events] for name, events in self.ids(node).items()}


class _Context:
    """What the conditions of one partial match see."""

    __slots__ = ("_clock", "_matched", "_node", "_state", "_timestamp")

    def __init__(self, state: MatchState, node: int, timestamp: int, clock: Callable[[], int]) -> None:
        self._state, self._node, self._timestamp, self._clock = state, node, timestamp, clock
        self._matched: Match | None = None

    def timestamp(self) -> int:
        return self._timestamp

    def current_processing_time(self) -> int:
        return self._clock()

    def get_events_for_pattern(self, name: str) -> Sequence[Any]:
        if self._matched is None:
            self._matched = self._state.match(self._node)
        return self._matched.get(name, ())


class Automaton:
    """The automaton of a pattern; it has no state of its own. ``clock`` is what conditions ask for.

    Raises:
        MalformedPatternException: the pattern is refused.
    """

    def __init__(self, pattern: Pattern, clock: Callable[[], int] = lambda: 0) -> None:
        compiled = Compiler(pattern)
        self._clock = clock
        self._states = {state.name: state for state in compiled.states}
        self._start = compiled.start.name
        self._windows_ms = compiled.windows_ms
        self._skip: AfterMatchSkipStrategy = pattern.skip_strategy
        self.window_ms = compiled.window_ms
        """The time in which a match must be complete; 0: it has no end."""

    def load(self, data: Any, store: EventStore) -> MatchState:
        """Return the state of a key as it was stored, or a new one for None."""
        return MatchState(self._start, data, store)

    def process(self, state: MatchState, event: Any, timestamp: int) -> list[Match]:
        """Return the matches that an event completes. Raises SkipFailed."""
        event_id = state.next_event
        state.next_event += 1
        state.new_events[event_id] = event
        partials, complete = MatchQueue(), MatchQueue()
        for each in state.partials.items:
            following = self._following(state, each, event, event_id, timestamp)
            if any(self._states[new.state].kind == STOP for new in following):
                complete_only = [new for new in following if self._states[new.state].kind == FINAL]
                for new in complete_only:
                    complete.add(new)
                continue
            for new in following:
                (complete if self._states[new.state].kind == FINAL else partials).add(new)
        matches = self._skipped(state, complete, partials)
        state.partials = partials
        return matches

    def advance_time(self, state: MatchState, timestamp: int) -> tuple[list[Match], list[tuple[Match, int]]]:
        """Return the matches that are complete at a time, and those that time out with when they did."""
        partials, complete = MatchQueue(), MatchQueue()
        timed_out = []
        for each in state.partials.items:
            window_ms = self._windows_ms.get(each.state, 0)
            late = self._over(each, timestamp, each.previous_at, window_ms)
            if not late and not self._over(each, timestamp, each.started_at, self.window_ms):
                partials.add(each)
            elif self._states[each.state].kind == PENDING:
                complete.add(each)
            else:
                at = each.previous_at + window_ms if late else each.started_at + self.window_ms
                timed_out.append((state.match(each.node), at))
        matches = self._skipped(state, complete, partials)
        state.partials = partials
        return matches, timed_out

    def _over(self, each: Partial, now: int, since: int, window_ms: int) -> bool:
        return each.node != NO_NODE and window_ms > 0 and now - since >= window_ms

    def _skipped(self, state: MatchState, complete: MatchQueue, partials: MatchQueue) -> list[Match]:
        """Return the complete matches that no partial match can precede; they discard others."""
        waiting = state.completed
        for each in complete.items:
            waiting.add(each)
        matches = []
        while waiting.items and (
            not (self._skip.skips and partials.items)
            or waiting.items[0].first_event <= partials.items[0].first_event
        ):
            match = waiting.poll()
            before = self._skip.prunes_before(state.ids(match.node)) if self._skip.skips else None
            if before is not None:
                for queue in (partials, waiting):
                    queue.discard(lambda each, before=before: each.first_event < before)  # type: ignore[misc]
            matches.append(state.match(match.node))
        return matches

    def _following(
        self, state: MatchState, partial: Partial, event: Any, event_id: int, timestamp: int
    ) -> list[Partial]:
        """Return what an event makes of a partial match."""
        context = _Context(state, partial.node, timestamp, self._clock)
        at_start = partial.state == self._start and partial.node == NO_NODE
        following = []
        for way in self._ways(self._states[partial.state], event, context):
            if way.action == IGNORE:
                if not at_start:
                    following.append(partial._replace(state=way.target.name))
                continue
            node = state.next_node
            state.next_node += 1
            state.nodes[node] = (way.source.pattern, event_id, partial.node)
            if at_start:
                state.has_started = True
                taken = Partial(way.target.name, node, event_id, timestamp, timestamp)
            else:
                taken = partial._replace(state=way.target.name, node=node, previous_at=timestamp)
            following.append(taken)
            final = self._final_after(way.target, event, context)
            if final is not None:
                following.append(taken._replace(state=final.name))
        if at_start:
            following.append(partial)
        return following

    @staticmethod
    def _ways(state: State, event: Any, context: _Context) -> list[Transition]:
        """Return the transitions that an event takes from a state, behind any PROCEED."""
        ways, stack = [], [state]
        while stack:
            for way in stack.pop().transitions:
                if way.condition(event, context):
                    if way.action == PROCEED:
                        stack.append(way.target)
                    else:
                        ways.append(way)
        return ways

    @staticmethod
    def _final_after(state: State, event: Any, context: _Context) -> State | None:
        """Return the Final state if a state proceeds to it."""
        stack = [state]
        while stack:
            for way in stack.pop().transitions:
                if way.action == PROCEED and way.condition(event, context):
                    if way.target.kind == FINAL:
                        return way.target
                    stack.append(way.target)
        return None
