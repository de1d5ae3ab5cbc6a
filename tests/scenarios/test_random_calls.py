"""Random jobs call the whole API: a table of its methods, the positions of a life, and pairs of windows."""

from __future__ import annotations

import ast
import inspect
from random import Random
from textwrap import dedent
from typing import Any

import pytest

from onceproof.engine import (
    AggregatingState,
    BroadcastState,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ListState,
    MapState,
    ReadOnlyBroadcastState,
    ReducingState,
    RuntimeContext,
    TimerService,
    ValueState,
)
from onceproof.engine.functions import FunctionInitializationContext, FunctionSnapshotContext
from onceproof.engine.windows.window_functions import WindowContext
from onceproof.scenarios import _buffering, random_job
from onceproof.scenarios.random_graphs import _calling_functions as calling
from onceproof.scenarios.random_graphs import _functions as plain
from onceproof.scenarios.random_graphs import _keyed_functions as keyed
from onceproof.scenarios.random_graphs import _meeting_functions as meeting
from onceproof.scenarios.random_graphs import _pane_functions as panes
from onceproof.scenarios.random_graphs._graph import GraphError, graph_of
from onceproof.scenarios.random_graphs._panes import covered, covering_rows, is_legal, pairs_of

MODULES = (plain, keyed, meeting, calling, panes, _buffering)
RAW = "bytes of a function's own: the family raw_numbers"
BY_HAND = "the family rich_functions and the textbook's programs have it"
OURS = "of this engine alone; the sinks of all families use it"
SURFACE: dict[Any, dict[str, str]] = {
    ValueState: {},
    ListState: {},
    MapState: {},
    ReducingState: {},
    AggregatingState: {},
    BroadcastState: {},
    ReadOnlyBroadcastState: {"clear": "raises, for the side may only read"},
    TimerService: {},
    KeyedProcessFunction.Context: {},
    KeyedProcessFunction.OnTimerContext: {},
    KeyedBroadcastProcessFunction.Context: {},
    KeyedBroadcastProcessFunction.ReadOnlyContext: {},
    KeyedBroadcastProcessFunction.OnTimerContext: {},
    WindowContext: {
        "current_processing_time": "what it returns depends on the schedule: the family clock_windows",
        "current_watermark": "what it returns depends on the schedule: the family early_totals",
    },
    RuntimeContext: {
        "get_owner_id": OURS,
        "get_place_id": OURS,
        "get_current_processing_time": OURS,
        "probe": OURS,
    },
    FunctionInitializationContext: {
        "get_raw_operator_state_inputs": RAW,
        "get_raw_keyed_state_inputs": RAW,
        "get_keyed_state_store": BY_HAND,
        "get_list_state": "a shorter way to get_operator_state_store, which it calls",
        "get_broadcast_state": "a shorter way to get_operator_state_store, which it calls",
        "is_settled": OURS,
    },
    FunctionSnapshotContext: {
        "get_raw_operator_state_output": RAW,
        "get_raw_keyed_operator_state_output": RAW,
        "written_raw_state": OURS,
    },
}
"""By class of the API those of its methods that no random job calls, each with the reason."""
POSITIONS = {
    "open": calling.Calls,
    "process_element": calling.Calls,
    "on_timer": calling.Calls,
    "initialize_state": calling.CallsOnOperatorState,
    "snapshot_state": calling.CallsOnOperatorState,
    "notify_checkpoint_complete": calling.CallsOnOperatorState,
    "close": calling.CallsOnOperatorState,
    "process_broadcast_element": meeting.PairsWithCalls,
    "process": panes.PaneByProcess,
    "clear": panes.PaneByProcess,
}
"""The positions of a function's life in which random jobs call the API. END_MS is the end of the input."""


def public_methods(kind: type) -> set[str]:
    return {
        name
        for name, value in inspect.getmembers(kind)
        if not name.startswith("_") and callable(value) and not inspect.isclass(value)
    }


def called_methods() -> set[str]:
    called: set[str] = set()
    for module in MODULES:
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                called.add(node.func.attr)
    return called


@pytest.mark.parametrize("kind", SURFACE, ids=lambda kind: kind.__qualname__)
def test_random_jobs_call_each_method_or_there_is_a_reason(kind: type) -> None:
    left_out, called = SURFACE[kind], called_methods()
    missing = public_methods(kind) - called - left_out.keys()
    assert not missing, f"{kind.__qualname__}: let random jobs call {sorted(missing)}, or give a reason"
    assert left_out.keys() <= public_methods(kind)


def test_each_position_of_a_life_calls_the_api() -> None:
    for position, kind in POSITIONS.items():
        [function] = ast.parse(dedent(inspect.getsource(vars(kind)[position]))).body
        assert any(isinstance(node, ast.Call) for node in ast.walk(function)), position


def test_few_rows_have_each_legal_pair_of_windows() -> None:
    rows = covering_rows()
    assert len(rows) < 120
    assert all(is_legal(row) for row in rows)
    met, all_pairs = covered([".".join(row) for row in rows])
    assert met == all_pairs > 350
    merging = {one for row in rows for pair in pairs_of(row) for one in pair if one[0] == "merging"}
    assert merging == {("merging", "True"), ("merging", "False")}


@pytest.mark.parametrize(
    "row",
    [
        "session.never.none.0.process.event.steady",
        "global.every.none.0.process.event.steady",
        "global.end.none.0.process.processing.idle",
        "tumbling.end.none.30.process.processing.idle",
        "tumbling.end.none.0.process.event",
        "tumbling.soon.none.0.process.event.steady",
    ],
)
def test_windows_that_cannot_be_are_refused_with_their_vertex(row: str) -> None:
    with pytest.raises(GraphError, match="v1: panes="):
        graph_of({"v1": f"panes of=left panes={row}", "s1": "sink of=v1"})


def test_two_thousand_random_jobs_have_each_legal_pair_of_windows() -> None:
    said: set[str] = set()
    met = all_pairs = 0
    for seed in range(2_000):
        graph = graph_of(random_job.generate(Random(seed)).parameters)
        said |= {vertex.panes for vertex in graph.vertices if vertex.panes}
        if seed % 200 == 199:
            met, all_pairs = covered(said)
            if met == all_pairs:
                break
    assert met == all_pairs
