"""Replays the window operators of a simulated run through their specification, live.

Rules:

- A watched operator answers as the engine's does. What its functions are called with is noted, and compared
  with what the specification says after each buffer, watermark and wake-up.
- The specification has windows of its own. A snapshot keeps a copy of them, a restore begins with those of
  the key groups that the subtask owns: what the engine has stored is not looked at.
- Not watched: triggers and assigners that are the job's own, jobs in BATCH mode, and a subtask that restores
  a checkpoint of which no copy is kept, or which a subtask has taken that is judged no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from itertools import zip_longest
from typing import Any, Final, TypeAlias

from onceproof.engine.elements import Record
from onceproof.engine.key_groups import key_group_of
from onceproof.engine.operators.base import Operator, OperatorContext
from onceproof.engine.operators.window import WindowOperator
from onceproof.engine.operators.window_parts import CONTENTS, WindowFunctions, WindowSettings, folded
from onceproof.engine.state.snapshot import KeyedSnapshot, OperatorSnapshot
from onceproof.engine.windows import assigners, evictors, triggers
from onceproof.engine.windows.count_windows import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from onceproof.engine.windows.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from onceproof.engine.windows.windows import CountWindow, TimeWindow
from onceproof.harness.specifications.windows import (
    ENDLESS,
    GLOBAL,
    Assigner,
    Cleared,
    Evictor,
    KeyedWindows,
    Late,
    Outcome,
    Pane,
    Trigger,
    Window,
    WindowRules,
    WindowSpecification,
)
from onceproof.harness.systems.simulation.deviations import Deviations

_SESSIONS: Final = (
    assigners.EventTimeSessionWindows,
    assigners.ProcessingTimeSessionWindows,
    assigners.DynamicEventTimeSessionWindows,
    assigners.DynamicProcessingTimeSessionWindows,
)
_OTHERS: Final[Mapping[type, str]] = {
    assigners.TumblingEventTimeWindows: "tumbling",
    assigners.TumblingProcessingTimeWindows: "tumbling",
    assigners.SlidingEventTimeWindows: "sliding",
    assigners.SlidingProcessingTimeWindows: "sliding",
}
_TRIGGERS: Final[Mapping[type, Trigger]] = {
    triggers.EventTimeTrigger: Trigger("end"),
    triggers.ProcessingTimeTrigger: Trigger("end", by_event_time=False),
    triggers.ContinuousEventTimeTrigger: Trigger("every"),
    triggers.ContinuousProcessingTimeTrigger: Trigger("every", by_event_time=False),
    triggers.CountTrigger: Trigger("count"),
    triggers.NeverTrigger: Trigger("never"),
}


def assigner_of(assigner: Any) -> Assigner | None:
    """Return the specified form of an assigner; None: it is the job's own."""
    kind = type(assigner)
    if kind in (CountTumblingWindowAssigner, CountSlidingWindowAssigner):
        return Assigner("count", assigner.window_size, assigner.window_slide, 0, False)
    if kind is assigners.GlobalWindows:
        return Assigner("global", by_event_time=False)
    if kind in _SESSIONS:
        return Assigner("session", by_event_time=assigner.is_event_time())
    if kind not in _OTHERS:
        return None
    size, *slides = assigner.lengths_ms
    slide = slides[0] if slides else size
    return Assigner(_OTHERS[kind], size, slide, assigner.offset_ms, assigner.is_event_time())  # type: ignore[arg-type]


def trigger_of(trigger: Any) -> Trigger | None:
    """Return the specified form of a trigger; None: it is the job's own."""
    match trigger:
        case triggers.PurgingTrigger() if type(trigger) is triggers.PurgingTrigger:
            nested = trigger_of(trigger.nested_trigger)
            return None if nested is None else nested._replace(purges=True)
        case triggers.CountTrigger():
            amount = trigger.window_size
        case triggers.ContinuousEventTimeTrigger() | triggers.ContinuousProcessingTimeTrigger():
            amount = trigger.interval_ms
        case _:
            amount = 0
    known = _TRIGGERS.get(type(trigger))
    return None if known is None else known._replace(amount=amount)


def evictor_of(evictor: Any) -> Evictor | None:
    """Return the specified form of an evictor; None: it is the job's own."""
    if type(evictor) is evictors.CountEvictor:
        return Evictor("count", evictor.max_count, evictor.evicts_after)
    if type(evictor) is evictors.TimeEvictor:
        return Evictor("time", evictor.window_size_ms, evictor.evicts_after)
    if type(evictor) is evictors.DeltaEvictor:
        return Evictor("delta", evictor.threshold, evictor.evicts_after, evictor.delta_function)
    return None


def rules_of(functions: WindowFunctions, settings: WindowSettings) -> WindowRules | None:
    """Return the rules of a window operator; None: a part of it is the job's own."""
    assigner, trigger = assigner_of(settings.assigner), trigger_of(settings.trigger)
    evictor = evictor_of(settings.evictor)
    if assigner is None or trigger is None or (evictor is None) is not (settings.evictor is None):
        return None
    fold = functions.fold
    own: Callable[[Sequence[Any]], Any] | None = None
    if fold is not None:
        own = partial(_folded_apart, fold)
    return WindowRules(assigner, trigger, evictor, settings.allowed_lateness_ms, own)


def _folded_apart(fold: Any, values: Sequence[Any]) -> Any:
    """Return the folded value; a fold may change what it is given."""
    return folded(fold, deepcopy(values))


def window_of(window: Any) -> Window:
    """Return the specified form of a window."""
    if type(window) is TimeWindow:
        return Window(window.start, window.end)
    return Window(window.id, ENDLESS) if type(window) is CountWindow else GLOBAL


Kept: TypeAlias = tuple[str, dict[str, KeyedWindows] | None]
"""Of a checkpoint, its attempt and the windows of all subtasks; None: those of one are not known."""


class WindowWatch:
    """The watched operators of an attempt, and by operator and checkpoint the windows of all subtasks."""

    def __init__(self) -> None:
        self._operators: list[WatchedWindows] = []
        self._kept: dict[tuple[str, int], Kept] = {}

    def watched(self, deviations: Deviations, operator: Operator) -> Operator:
        """Return what does the same as an operator, watched if it has windows that are specified."""
        if type(operator) is not WindowOperator:
            return operator
        rules = rules_of(operator.functions, operator.settings)
        if rules is None:
            return operator
        watched = WatchedWindows(deviations, self._kept, rules, operator.functions, operator.settings)
        self._operators.append(watched)
        return watched

    def let_go(self) -> None:
        """Let go of the operators, which hold what holds them."""
        for operator in self._operators:
            operator.let_go()
        self._operators.clear()


class WatchedWindows(WindowOperator):
    """A window operator that is watched."""

    def __init__(
        self,
        watch: Deviations,
        kept: dict[tuple[str, int], Kept],
        rules: WindowRules,
        functions: WindowFunctions,
        settings: WindowSettings,
    ) -> None:
        super().__init__(functions, settings)
        self._watch = watch
        self._kept = kept
        self._rules = rules
        self._specification: WindowSpecification | None = None
        self._late = 0
        self._calls: list[tuple[Any, ...]] = []
        """What the functions were called with since it was compared."""

    # The operator.

    def open(self, context: OperatorContext) -> None:
        """Open as the engine does."""
        self._opened = context
        self._name = f"windows of {context.operator_name or context.task_name}-{context.subtask}"
        for function in self.functions.all():
            _hook(function, self._calls)
        super().open(context)
        if not context.key_by_key:
            self._begin(context)

    def _begin(self, context: OperatorContext) -> None:
        checkpoint_id = context.restored_checkpoint_id
        place = context.operator_id, checkpoint_id or 0
        self._forget_later_than(*place)
        kept = {} if checkpoint_id is None else self._kept.get(place, ("", None))[1]
        if kept is None:
            return
        first, last = context.key_groups
        own = {name: of for name, of in kept.items() if first <= self._key_group(of.key) <= last}
        self._specification = WindowSpecification(self._rules, own)
        self._compare("restore", [])

    def _forget_later_than(self, operator_id: str, checkpoint_id: int) -> None:
        """Forget what earlier attempts kept: this one may give those numbers once more."""
        own = self._opened.attempt
        for place, (attempt, _) in list(self._kept.items()):
            if place[0] == operator_id and place[1] > checkpoint_id and attempt != own:
                del self._kept[place]

    def _key_group(self, key: Any) -> int:
        identity = self._keyed.identify(key)
        return key_group_of(identity, self._opened.max_parallelism, self.settings.key_type)

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        """Answer as the engine does."""
        specification = self._judged()
        if specification is None:
            self._calls.clear()
            return super().process_batch(records, input_index)
        expected: list[Outcome] = []
        select_key, now = self.settings.key_selector, self._opened.clock()
        for value, timestamp in deepcopy(records):
            gap = self._gap_of(value, timestamp)
            expected += specification.element(select_key(value), value, timestamp, now, gap)
        shown = f"records {records}"
        got = super().process_batch(records, input_index)
        self._compare(shown, expected, got)
        return got

    def _gap_of(self, value: Any, timestamp: int | None) -> int:
        if self._rules.assigner.kind != "session":
            return 0
        [window] = self.settings.assigner.assign_windows(value, timestamp, self._assigner_context)
        gap: int = window.end - window.start
        return gap

    def process_watermark(self, timestamp: int) -> list[Record]:
        """Answer as the engine does."""
        specification = self._judged()
        expected = [] if specification is None else list(specification.advance(timestamp))
        got = super().process_watermark(timestamp)
        self._compare(f"watermark {timestamp}", expected, got)
        return got

    def process_time(self, now: int) -> list[Record]:
        """Answer as the engine does."""
        specification = self._judged()
        expected = [] if specification is None else list(specification.wake(now))
        got = super().process_time(now)
        self._compare(f"processing time {now}", expected, got)
        return got

    def snapshot(self, checkpoint_id: int, timestamp_ms: int) -> OperatorSnapshot | None:
        """Answer as the engine does, and keep the windows that the specification has."""
        place, own = (self._opened.operator_id, checkpoint_id), self._opened.attempt
        attempt, windows = self._kept.get(place, ("", {}))
        taken = windows if attempt == own else {}
        if self._specification is None or taken is None:
            self._kept[place] = own, None
        else:
            self._kept[place] = own, {**taken, **self._specification.snapshot()}
        snapshot = super().snapshot(checkpoint_id, timestamp_ms)
        if snapshot is not None and type(snapshot.keyed) is KeyedSnapshot:
            self._compare_stored(f"snapshot {checkpoint_id}", snapshot.keyed)
        return snapshot

    def let_go(self) -> None:
        """Give the functions their own methods back, which hold the functions."""
        for function in self.functions.all():
            for name in _HOOKED:
                vars(function).pop(name, None)

    # The comparison.

    def _judged(self) -> WindowSpecification | None:
        specification = self._specification
        if specification is not None and (self._watch.has_deviated or not specification.is_settled):
            self._specification = None
        return self._specification

    def _compare(self, event: str, expected: Iterable[Outcome], results: Sequence[Record] = ()) -> None:
        specification = self._judged()
        if specification is None:
            self._calls.clear()
            return
        outcomes = list(expected)
        panes = [each for each in outcomes if type(each) is Pane]
        self._late += sum(type(each) is Late for each in outcomes)
        if self.functions.function is None:
            certain = all(each.is_certain for each in panes)
            wanted = sorted([(each.window.end - 1, repr(one)) for each in panes for one in each.values])
            seen = sorted([(at or 0, repr(value)) for value, at in results])
            if len(wanted) != len(seen) or (certain and wanted != seen):
                self._watch.deviate(self._name, event, f"emits {wanted}", f"emits {seen}")
        else:
            self._compare_panes(event, outcomes)
            ends = {each.window.end - 1 for each in panes}
            if not ends.issuperset(at for _, at in results):
                self._watch.deviate(self._name, event, f"results at {ends}", f"results {results}")
        self._calls.clear()
        if self.late_records != self._late:
            self._watch.deviate(self._name, event, f"{self._late} late records", str(self.late_records))
        timers = len(self.timers.event), len(self.timers.processing)
        if timers != specification.timers():
            self._watch.deviate(self._name, event, f"timers {specification.timers()}", f"timers {timers}")

    def _compare_panes(self, event: str, outcomes: Sequence[Outcome]) -> None:
        function = self.functions.function
        merges, keyed = (
            self._rules.assigner.kind == "session",
            not isinstance(function, AllWindowFunction | ProcessAllWindowFunction),
        )
        has_clear = isinstance(function, ProcessWindowFunction | ProcessAllWindowFunction)
        wanted: list[tuple[Any, ...]] = []
        for each in outcomes:
            match each:
                case Pane(key, window, values, is_certain):
                    wanted.append(
                        _pane(key if keyed else None, window, values if is_certain else None, merges)
                    )
                case Cleared(_, window) if has_clear:
                    wanted.append(("clear", window))
        seen = []
        uncertain = {one[:3] for one in wanted if one[0] == "pane" and one[3] is None}
        for call in self._calls:
            if call[0] == "pane":
                one = _pane(call[1] if keyed else None, call[2], call[3], merges)
                seen.append((*one[:3], None) if one[:3] in uncertain else one)
            else:
                seen.append(call)
        # The order of windows and keys is open, that of the firings of a window is not.
        wanted.sort(key=_place)
        seen.sort(key=_place)
        for one, other in zip_longest(wanted, seen):
            if one != other:
                self._watch.deviate(self._name, event, one or "nothing more", other or "nothing more")
                return

    def _compare_stored(self, event: str, stored: KeyedSnapshot) -> None:
        """Compare how many windows have stored state: none that is over has any."""
        specification = self._judged()
        if specification is None:
            return
        keys = specification.keys.values()
        expected = {CONTENTS: sum(bool(elements) for of in keys for elements in of.contents.values())}
        # A function may have state of its own by the names that other triggers use.
        match self._rules.trigger.kind:
            case "count":
                expected["count"] = sum(len(of.counts) for of in keys)
            case "every":
                expected["fire-time"] = sum(len(of.next_fires) for of in keys)
        for table in stored.tables:
            if len(table.entries) != expected.get(table.name, len(table.entries)):
                what = f"state {table.name} of"
                self._watch.deviate(
                    self._name,
                    event,
                    f"{what} {expected[table.name]} windows",
                    f"{what} {len(table.entries)}",
                )


def _pane(key: Any, window: Window, values: Sequence[Any] | None, merges: bool) -> tuple[Any, ...]:
    shown = None if values is None else [repr(value) for value in values]
    return "pane", repr(key), window, sorted(shown) if merges and shown else shown


def _place(call: tuple[Any, ...]) -> tuple[Any, ...]:
    return ("clear", "", call[1]) if call[0] == "clear" else call[:3]


def _hook(function: Any, calls: list[tuple[Any, ...]]) -> None:
    """Have the calls of a subtask's own function noted, until ``let_go``."""
    called: Any = function
    match function:
        case ProcessWindowFunction():
            called.process = _noted(called.process, calls, _process_pane)
        case ProcessAllWindowFunction():
            called.process = _noted(called.process, calls, partial(_process_pane, None))
        case WindowFunction():
            called.apply = _noted(called.apply, calls, _apply_pane)
        case AllWindowFunction():
            called.apply = _noted(called.apply, calls, partial(_apply_pane, None))
    if isinstance(function, ProcessWindowFunction | ProcessAllWindowFunction):
        called.clear = _noted(called.clear, calls, lambda context: ("clear", window_of(context.window())))


_HOOKED: Final = ("process", "apply", "clear")


def _noted(call: Any, calls: list[tuple[Any, ...]], said: Callable[..., tuple[Any, ...]]) -> Any:
    def noted(*arguments: Any) -> Any:
        calls.append(said(*arguments))
        return call(*arguments)

    return noted


def _process_pane(key: Any, context: Any, elements: Iterable[Any]) -> tuple[Any, ...]:
    return _apply_pane(key, context.window(), elements)


def _apply_pane(key: Any, window: Any, elements: Iterable[Any]) -> tuple[Any, ...]:
    return "pane", key, window_of(window), list(elements)
