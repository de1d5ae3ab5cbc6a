"""Patterns and events as data, and what the automaton makes of them.

A case has the ``pattern``, a chain of dicts with the words of Flink's Quantifier, ``skip`` and the ``times``
of the events. Events are numbers from 0; ``accepts`` and ``until`` list those that fulfil a condition.
``rises`` stands for an iterative condition. The result has, for each event and for the end of time, the
matches and those that time out.
"""

from __future__ import annotations

from onceproof.engine.cep.automaton import Automaton
from onceproof.engine.cep.conditions import IterativeCondition
from onceproof.engine.cep.pattern import Pattern, WithinType
from onceproof.engine.cep.skipping import AfterMatchSkipStrategy
from onceproof.engine.durations import Duration

END_MS = 1_000_000
_FOLLOW = {
    "STRICT": Pattern.next,
    "SKIP_TILL_NEXT": Pattern.followed_by,
    "SKIP_TILL_ANY": Pattern.followed_by_any,
    "NOT_NEXT": Pattern.not_next,
    "NOT_FOLLOW": Pattern.not_followed_by,
}


class Rises(IterativeCondition):
    """The number of the event is odd where as many events are matched by the pattern, and even else."""

    def __init__(self, name):
        self.name = name

    def filter(self, value, ctx):
        return len(ctx.get_events_for_pattern(self.name)) % 2 == value % 2


class Events(dict):
    """The events of matches, in place of a map state."""

    put = dict.__setitem__
    remove = dict.pop


def pattern_of(nodes, skip=None):
    """Return the end of a chain."""
    pattern = None
    for node in nodes:
        what = pattern_of(node["group"]) if "group" in node else node["name"]
        pattern = Pattern.begin(what, skip) if pattern is None else _FOLLOW[node["follow"]](pattern, what)
        _qualify(pattern, node)
    return pattern


def _qualify(pattern, node):
    if "accepts" in node:
        pattern.where(frozenset(node["accepts"]).__contains__)
    if "rises" in node:
        pattern.where(Rises(node["name"]))
    window = Duration.of_millis(node["window"]) if "window" in node else None
    if "times" in node:
        least, most = node["times"]
        if most < 0:
            pattern.times_or_more(least, window)
        else:
            pattern.times(least, None if least == most else most, window)
    if node.get("inner") == "STRICT":
        pattern.consecutive()
    if node.get("inner") == "SKIP_TILL_ANY":
        pattern.allow_combinations()
    if node.get("greedy"):
        pattern.greedy()
    if node.get("optional"):
        pattern.optional()
    if "until" in node:
        pattern.until(frozenset(node["until"]).__contains__)
    for kind, time_ms in node.get("within", {}).items():
        pattern.within(Duration.of_millis(time_ms), WithinType[kind])


def skip_of(data):
    """Return the strategy of a case."""
    skip = AfterMatchSkipStrategy(data["kind"], data.get("pattern", ""))
    return skip.throw_exception_on_miss() if data.get("throws") else skip


def found(case):
    """Return what the automaton makes of a case; its state is stored and loaded after each event."""
    automaton = Automaton(pattern_of(case["pattern"], skip_of(case["skip"])))
    data, events, steps = None, Events(), []
    for number, time_ms in enumerate([*case["times"], END_MS]):
        state = automaton.load(data, events)
        matches, timed_out = automaton.advance_time(state, time_ms)
        if time_ms != END_MS:
            matches = matches + automaton.process(state, number, time_ms)
        steps.append([matches, [list(each) for each in timed_out]])
        data = state.store()
        assert data is not None or not events, "events that no match refers to are kept"
    return steps
