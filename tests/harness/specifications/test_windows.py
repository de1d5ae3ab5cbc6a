"""The specification of windows: facts of Flink, sequences by hand, and planted bugs that a replay names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from onceproof.engine.elements import MAX_WATERMARK
from onceproof.engine.operators.window import WindowOperator
from onceproof.engine.operators.window_parts import WindowFunctions, WindowSettings
from onceproof.engine.windows.assigners import GlobalWindows
from onceproof.engine.windows.triggers import CountTrigger, EventTimeTrigger, PurgingTrigger
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.specifications.windows import (
    GLOBAL,
    Assigner,
    Cleared,
    Evictor,
    Late,
    Pane,
    Trigger,
    Window,
    WindowRules,
    WindowSpecification,
)
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from onceproof.harness.systems.simulation.window_watch import rules_of
from onceproof.harness.trials.trial import scenario_of
from tests.harness.specifications.test_replay import deviations

FACTS = [
    pytest.param(each["input"], each["expected"]["output"], id=each["id"])
    for name in ("vectors.json", "vectors-2.json")
    for each in json.loads(Path("tests/conformance", name).read_text())["vectors"]
    if each["area"] == "window.operator"
]
KINDS = {"event_time": "end", "count": "count", "never": "never", "continuous": "every"}
EVENT = Trigger("end")


def trigger_of(form: list[Any]) -> Trigger:
    kind, *amount = form
    if kind == "purging":
        return trigger_of(amount[0])._replace(purges=True)
    return Trigger(KINDS[kind], *amount)  # type: ignore[arg-type]


def rules_given(given: dict[str, Any]) -> WindowRules:
    size = given.get("size_ms", given.get("gap_ms", 0))
    kind, offset = given["assigner"], given.get("offset_ms", 0)
    fold = sum if given["function"] == "reduce_sum" else None
    trigger = trigger_of(given.get("trigger", ["event_time"]))
    evictor = None
    if "evictor" in given:
        name, amount, *after = given["evictor"]
        evictor = Evictor(name, amount, bool(after))
    if kind == "count":
        return WindowRules(Assigner("global", by_event_time=False), Trigger("count", given["size"], True))
    if kind == "count_sliding":
        rules = Assigner("global", by_event_time=False), Trigger("count", given["slide"])
        return WindowRules(*rules, Evictor("count", given["size"]))
    if kind == "global":
        trigger = trigger_of(given.get("trigger", ["never"]))
        return WindowRules(Assigner("global", by_event_time=False), trigger, evictor)
    assigner = Assigner(kind, size, given.get("slide_ms", size), offset)
    return WindowRules(assigner, trigger, evictor, given.get("allowed_lateness_ms", 0), fold)


def panes_of(output: list[Any]) -> list[tuple[Any, ...]]:
    """Return the firings and late records of a fact between its watermarks, those of one sorted."""
    found: list[tuple[Any, ...]] = []
    for entry in output:
        if entry[0] == "out":
            said = entry[1]
            values = sorted(said["values"]) if "values" in said else [said["sum"]]
            found.append((said["key"], tuple(said["window"]), tuple(values)))
        elif entry[0] == "late":
            found.append(("late", entry[1][1]))
    return sorted(found, key=str)


@pytest.mark.parametrize(("given", "expected"), FACTS)
def test_windows_fire_as_those_of_flink(given: dict[str, Any], expected: list[Any]) -> None:
    specification = WindowSpecification(rules_given(given))
    outcomes = []
    for kind, *said in [*given["events"], ["w", MAX_WATERMARK]]:
        if kind == "w":
            outcomes += specification.advance(said[0])
        else:
            key, value, timestamp = said
            outcomes += specification.element(key, value, timestamp, 0, given.get("gap_ms", 0))
    found: list[tuple[Any, ...]] = []
    for each in outcomes:
        if isinstance(each, Pane):
            window = ("global",) if each.window == GLOBAL else tuple(each.window)
            found.append((each.key, window, tuple(sorted(each.values))))
        elif isinstance(each, Late) and given.get("late_side_output"):
            found.append(("late", each.value))
    assert sorted(found, key=str) == panes_of(expected)


def events(specification: WindowSpecification, *steps: Any) -> list[Any]:
    """Return what leads to what: a number is a record of its time, text such as "w9" a watermark."""
    outcomes: list[Any] = []
    for step in steps:
        if isinstance(step, str):
            outcomes += (
                specification.advance(int(step[1:])) if step[0] == "w" else specification.wake(int(step[1:]))
            )
        else:
            outcomes += specification.element("a", step, step, step, 5)
    return outcomes


TUMBLING, SESSION = Assigner("tumbling", 10, 10), Assigner("session", 5)
BY_CLOCK = Assigner("tumbling", 10, 10, 0, False)
FIRST = Window(0, 10)
BY_HAND: dict[str, tuple[WindowRules, tuple[Any, ...], list[Any]]] = {
    "a window fires at its last timestamp": (
        WindowRules(TUMBLING, EVENT), (1, 2, "w8", "w9"), [Pane("a", FIRST, [1, 2]), Cleared("a", FIRST)],
    ),
    "the last moment in time, and the first that is late": (
        WindowRules(TUMBLING, EVENT, None, 3), (1, "w11", 2, "w12", 3),
        [Pane("a", FIRST, [1]), Pane("a", FIRST, [1, 2]), Cleared("a", FIRST), Late(3)],
    ),
    "a purged window holds what is new": (
        WindowRules(TUMBLING, Trigger("end", 0, True), None, 9), (1, "w9", 2),
        [Pane("a", FIRST, [1]), Pane("a", FIRST, [2])],
    ),
    "sessions that touch are one, and its timers are those of the end": (
        WindowRules(SESSION, EVENT), (1, 11, 6, "w10", "w15"),
        [Pane("a", Window(1, 16), [1, 11, 6]), Cleared("a", Window(1, 16))],
    ),
    "counts of merged sessions add up": (
        WindowRules(SESSION, Trigger("count", 3)), (1, 11, 6), [Pane("a", Window(1, 16), [1, 11, 6])],
    ),
    "an interval begins at its multiple": (
        WindowRules(TUMBLING, Trigger("every", 4)), (1, "w4", "w9"),
        [Pane("a", FIRST, [1])] * 3 + [Cleared("a", FIRST)],
    ),
    "an evictor takes what a later firing would have": (
        WindowRules(TUMBLING, EVENT, Evictor("count", 1, True), 9), (1, 2, "w9", 3),
        [Pane("a", FIRST, [1, 2]), Pane("a", FIRST, [2, 3])],
    ),
    "windows by the clock know no late record": (
        WindowRules(BY_CLOCK, Trigger("end", by_event_time=False)), (1, "t9", 2, "t9"),
        [Pane("a", FIRST, [1]), Cleared("a", FIRST), Pane("a", FIRST, [2]), Cleared("a", FIRST)],
    ),
    "windows of records begin with each third": (
        WindowRules(Assigner("count", 2, 3, 0, False), Trigger("count", 2, True)), (1, 2, 3, 4, 5),
        [Pane("a", Window(0, GLOBAL.end), [1, 2]), Pane("a", Window(1, GLOBAL.end), [4, 5])],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_HAND)
def test_sequence_by_hand_leads_to_its_panes(name: str) -> None:
    rules, steps, expected = BY_HAND[name]
    assert events(WindowSpecification(rules), *steps) == expected


def test_restored_windows_hold_what_the_snapshot_had() -> None:
    specification = WindowSpecification(WindowRules(SESSION, EVENT))
    events(specification, 1, 3)
    kept = specification.snapshot()
    events(specification, 4, "w20")
    restored = WindowSpecification(WindowRules(SESSION, EVENT), kept)
    assert restored.timers() == (1, 0)
    assert events(restored, "w20") == [Pane("a", Window(1, 8), [1, 3]), Cleared("a", Window(1, 8))]


def test_an_evictor_that_goes_by_the_order_of_merging_settles_nothing() -> None:
    specification = WindowSpecification(WindowRules(SESSION, EVENT, Evictor("count", 1)))
    events(specification, 1, 11)
    assert specification.is_settled
    events(specification, 6)
    assert not specification.is_settled


def test_a_fold_that_depends_on_the_order_of_merging_is_not_certain() -> None:
    rules = WindowRules(SESSION, EVENT, fold=lambda values: values[0])
    [pane, _] = events(WindowSpecification(rules), 1, 3, "w20")
    assert not pane.is_certain


# Live.


def nothing(*arguments: Any) -> None:
    pass


@contextmanager
def windows_that_are_never_cleared() -> Iterator[None]:
    clear = WindowOperator._clear

    def silent(self: WindowOperator, window: Any, window_set: Any) -> None:
        function, self._window_function = self._window_function, None
        clear(self, window, window_set)
        self._window_function = function

    with replaced(WindowOperator, "_clear", silent):
        yield


@contextmanager
def windows_that_live_a_moment_longer() -> Iterator[None]:
    cleanup_ms = WindowOperator.cleanup_ms
    with replaced(WindowOperator, "cleanup_ms", lambda self, window: cleanup_ms(self, window) + 1):
        yield


@contextmanager
def contents_that_stay_behind() -> Iterator[None]:
    """A restore begins without what windows held."""
    open_operator = WindowOperator.open

    def empty(self: WindowOperator, context: Any) -> None:
        open_operator(self, context)
        for key, timer in self.timers.event.stored():
            self.timers.event.delete(key, timer)

    with replaced(WindowOperator, "open", empty):
        yield


@contextmanager
def counts_that_outlive_their_windows() -> Iterator[None]:
    with replaced(CountTrigger, "clear", nothing):
        yield


BUGS: dict[str, tuple[Callable[[], Any], str, str]] = {
    "no clear": (windows_that_are_never_cleared, "sessions", "('clear', "),
    "a moment longer": (windows_that_live_a_moment_longer, "sessions", "timers"),
    "nothing restored": (contents_that_stay_behind, "sessions", "timers"),
    "something stays": (counts_that_outlive_their_windows, "random_job", "state count of"),
}


def found_in(name: str) -> list[tuple[str, dict[str, Any]]]:
    family = load_family(name)
    seeds = 60 if name == "random_job" else 6
    return deviations(
        SimulatedSystem().run(family, replace(scenario_of(family, seed), seed=None)) for seed in range(seeds)
    )


@pytest.mark.parametrize("name", BUGS)
def test_planted_bug_of_windows_is_named_by_its_first_step(name: str) -> None:
    planted, family, expected = BUGS[name]
    with planted():
        found = found_in(family)
    assert any(
        machine.startswith("windows of ") and expected in payload["expected"] for machine, payload in found
    ), found[:3]


def test_a_trigger_of_the_jobs_own_is_not_specified() -> None:
    class Own(EventTimeTrigger):
        pass

    settings = WindowSettings(
        GlobalWindows.create(), PurgingTrigger.of(CountTrigger.of(3)), key_of, None, None
    )
    functions = WindowFunctions(None, None)
    rules = rules_of(functions, settings)
    assert rules is not None
    assert rules.trigger == Trigger("count", 3, True)
    assert rules_of(functions, replace(settings, trigger=PurgingTrigger.of(Own()))) is None


def key_of(value: Any) -> Any:
    return value
