"""Mistakes that people make in jobs, each as an edit of one line of a job that is right.

Each shows whether a family, or the job's own runs without faults, would catch it.

Rules:

- The mistakes are those of published jobs: state that no checkpoint holds, a call that is missing, a timer at
  the wrong time or on the wrong clock, a key that all records share, a comparison turned round, a row of a
  side output that is gone.
- An edit keeps types: the job still runs, and gives other rows.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from copy import copy, deepcopy
from itertools import count
from typing import Any, Final

from onceproof.harness.explanation.edits import (
    INSTEAD,
    Edit,
    EditPlace,
    called,
    code_of,
    places_of,
    with_body,
)

WRITES: Final = ("update", "add", "add_all", "put", "put_all", "clear", "remove")
"""Methods of state that return nothing."""
STATES: Final = (
    "get_state",
    "get_list_state",
    "get_map_state",
    "get_reducing_state",
    "get_aggregating_state",
)
TIMERS: Final = ("register_event_time_timer", "register_processing_time_timer")
OPPOSITE: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_HERE: Final = f"__import__({__name__!r}, fromlist=['*'])"
"""This module, in the code of a job."""
_openings: Final = count(1)


def job_mistakes(tree: ast.Module, lines: Collection[int], judging: Collection[str]) -> list[Edit]:
    """Return the mistakes that can be made in the ``lines`` of a job, in their order.

    Args:
        tree: of the job's file; an edit changes it while it is applied.
        lines: those that runs have executed. In others a mistake would show nothing.
        judging: the functions that judge the family, which stay as they are.
    """
    tags = _side_outputs(tree)
    found = []
    for place in places_of(tree, judging):
        if _is_executed(place, lines):
            found += [edit for mistakes in _MISTAKES for edit in mistakes(place)]
            found += _row_dropped(place, tags)
    return sorted(found, key=lambda edit: edit.line)


def lost_on_restore(descriptor: Any) -> Any:
    """Return a descriptor whose state begins empty in every attempt, as an attribute of a function does."""
    lost = copy(descriptor)
    lost.name = f"{descriptor.name} of opening {next(_openings)}"
    return lost


def one_key(selector: Any) -> Callable[[Any], Any]:
    """Return a key selector that gives all records the same key, of the type that ``selector`` gives."""
    key_of = getattr(selector, "get_key", selector)

    def same(value: Any) -> Any:
        key = key_of(value)
        return type(key)() if isinstance(key, bool | int | float | str | bytes) else key

    return same


def _is_executed(place: EditPlace, lines: Collection[int]) -> bool:
    """Return whether the statement of a place has run; outside functions each one has."""
    node: ast.AST | None = place.node
    while node is not None and not isinstance(node, ast.stmt):
        node = place.parents.get(node)
    if node is None or node.lineno in lines:
        return node is not None
    while node is not None and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        node = place.parents.get(node)
    return node is None


def _side_outputs(tree: ast.Module) -> frozenset[str]:
    """Return the code of the names that hold tags of side outputs."""
    return frozenset(
        ast.unparse(target)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and called(node.value) == "OutputTag"
        for target in node.targets
    )


def _state_in_an_attribute(place: EditPlace) -> Iterator[Edit]:
    node = place.node
    if called(node) in STATES and isinstance(node.func, ast.Attribute) and len(node.args) == 1:
        parent: Any = place.parents[node]
        held = code_of(parent.targets[0]) if isinstance(parent, ast.Assign) else code_of(node)
        lost = ast.parse(f"{_HERE}.lost_on_restore({ast.unparse(node.args[0])})", mode="eval").body
        yield place.edit(f"{held} is an attribute that no checkpoint holds", "", "args", [lost])


def _call_left_out(place: EditPlace) -> Iterator[Edit]:
    node = place.node
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        name = called(call)
        if name in (*WRITES, *TIMERS) or name.startswith("delete_"):
            yield from with_body(place, f"{code_of(call)} is left out", "", [ast.Pass()])


def _timer_shifted(place: EditPlace) -> Iterator[Edit]:
    node = place.node
    if called(node) in TIMERS and len(node.args) == 1:
        due = ast.BinOp(deepcopy(node.args[0]), ast.Add(), ast.Constant(1))
        yield place.edit(f"{code_of(node)} is due 1 ms later", "", "args", [due])


def _other_clock(place: EditPlace) -> Iterator[Edit]:
    node = place.node
    field = {ast.Attribute: "attr", ast.Name: "id"}.get(type(node), "")
    name = getattr(node, field, "")
    # Union state is a matter of operators, and has no clock.
    if "time" in name.lower() and (other := INSTEAD.get(name)):
        yield place.edit(f"{name} is {other}", "", field, other)


def _key_shared(place: EditPlace) -> Iterator[Edit]:
    node = place.node
    if called(node) == "key_by" and node.args:
        selector, *others = node.args
        shared = ast.parse(f"{_HERE}.one_key({ast.unparse(selector)})", mode="eval").body
        what = f"key_by({code_of(selector).strip('`')}) gives all records the same key"
        yield place.edit(what, "", "args", [shared, *others], at=selector)


def _comparison_turned_round(place: EditPlace) -> Iterator[Edit]:
    node = place.node
    is_start = isinstance(node, ast.Compare) and ast.unparse(node.left) == "__name__"
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and not is_start:
        opposite = [OPPOSITE[type(node.ops[0])]()]
        changed = ast.Compare(node.left, opposite, node.comparators)
        yield place.edit(f"{code_of(node)} is {code_of(changed)}", "", "ops", opposite)


def _row_dropped(place: EditPlace, tags: Collection[str]) -> Iterator[Edit]:
    node = place.node
    value = node.value.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield) else None
    if isinstance(value, ast.Tuple) and value.elts and ast.unparse(value.elts[0]) in tags:
        dropped = ast.parse("yield from ()").body
        yield from with_body(place, f"{code_of(node)} is left out", "", dropped)


_MISTAKES: Final[tuple[Callable[[EditPlace], Iterator[Edit]], ...]] = (
    _state_in_an_attribute,
    _call_left_out,
    _timer_shifted,
    _other_clock,
    _key_shared,
    _comparison_turned_round,
)
