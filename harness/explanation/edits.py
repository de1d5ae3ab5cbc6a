"""Edits of a job at one place each: what would be different if one line were another.

A failure is run again with each edit. If the job then passes, in other scenarios, too, the line is a cause.

Rules:

- An edit changes the syntax tree in one place. Its line is the line that it changes.
- The table ``_EDITS`` names the mistakes that are looked for: the wrong clock, the wrong key, a limit that is
  too small, a dropped side output, an alias, a call that gives another value in every run, a statement that
  should not be there, two in the wrong order, a condition.
- Edits are made only in lines that the failing run has executed, never in loops of ``while``, which might not
  end, and never in what the family itself is judged by.
- Special edits come before general ones. A general one may help where it does not explain.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

LONGEST_CODE: Final = 60
HIGHEST_INDEX: Final = 4
"""The last field of a tuple that is tried in place of another one."""
ENOUGH: Final = 100_000
"""What a limit is multiplied by."""
RATHER: Final = {
    "register_event_time_timer": "register_processing_time_timer",
    "delete_event_time_timer": "delete_processing_time_timer",
    "TumblingEventTimeWindows": "TumblingProcessingTimeWindows",
    "SlidingEventTimeWindows": "SlidingProcessingTimeWindows",
    "EventTimeSessionWindows": "ProcessingTimeSessionWindows",
    "EventTimeTrigger": "ProcessingTimeTrigger",
    "get_list_state": "get_union_list_state",
}
"""Names that are taken for each other, in both directions."""
INSTEAD: Final = {**RATHER, **{after: before for before, after in RATHER.items()}}
CLOCKS: Final = ("current_processing_time", "current_watermark")
CHANGING: Final = (
    *(
        "uuid1",
        "uuid4",
        "token_hex",
        "urandom",
        "time",
        "time_ns",
        "monotonic",
        "perf_counter",
        "now",
        "utcnow",
    ),
    *("random", "randint", "randrange", "choice", "uniform", "getrandbits", "getpid", "id", "hash"),
)
"""Functions that give another value in every run or process."""
CLOCK_IN_EVENT_TIME: Final = {"time": "(ctx.timestamp() / 1000)", "time_ns": "(ctx.timestamp() * 1_000_000)"}
ORDINAL: Final = ("get_index_of_this_subtask", "get_attempt_number", "get_number_of_parallel_subtasks")
"""Methods that give another value after a restart or a change of parallelism."""
COMPARISONS: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Eq: (ast.GtE, ast.LtE),
    ast.Gt: (ast.GtE,),
    ast.GtE: (ast.Gt,),
    ast.Lt: (ast.LtE,),
    ast.LtE: (ast.Lt,),
}
SIMPLE: Final = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete)
"""Statements that can be left out."""

Parents: TypeAlias = dict[ast.AST, ast.AST]


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of a syntax tree."""

    what: str
    """What is wrong, if the edit helps."""
    counterfactual: str
    line: int
    owner: str
    """The class, or the function, of the line."""
    node: ast.AST
    field: str
    value: Any
    """What the field of the node becomes."""

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Make the change inside the ``with`` block."""
        before = getattr(self.node, self.field)
        setattr(self.node, self.field, self.value)
        try:
            yield
        finally:
            setattr(self.node, self.field, before)


class EditPlace:
    """A node with what surrounds it, and the edits of it."""

    def __init__(self, node: ast.AST, parents: Parents, owner: str, method: ast.AST | None) -> None:
        self.node: Any = node
        self.parents = parents
        self.owner = owner
        self.method = method

    def edit(
        self, what: str, counterfactual: str, field: str, value: Any, node: Any = None, at: Any = None
    ) -> Edit:
        """Return an edit of a field of the node, or of another one."""
        line = (at or self.node).lineno
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.AST):
                _put_in_line(item, self.node)
        return Edit(what, counterfactual, line, self.owner, node or self.node, field, value)

    def replaced(self, what: str, counterfactual: str, replacement: Any) -> Edit:
        """Return the edit that puts another node in place of this one."""
        parent = self.parents[self.node]
        for name, value in ast.iter_fields(parent):
            if value is self.node:
                return self.edit(what, counterfactual, name, replacement, parent)
            if isinstance(value, list) and self.node in value:
                items = [replacement if each is self.node else each for each in value]
                return self.edit(what, counterfactual, name, items, parent)
        raise AssertionError("a node is a child of its parent")

    @property
    def arguments(self) -> list[str]:
        """The names of the arguments of the method, without self."""
        arguments = getattr(self.method, "args", None)
        return [] if arguments is None else [each.arg for each in arguments.args if each.arg != "self"]


def edits_of(tree: ast.Module, lines: Collection[int], judging: Collection[str]) -> list[list[Edit]]:
    """Return the edits of the ``lines`` that a run has executed, in the order of ``_EDITS``.

    Functions named in ``judging`` judge the family; they are left as they are.
    """
    places = [place for place in places_of(tree, judging) if _line_of(place.node) in lines]
    return [[edit for edits in tier for place in places for edit in edits(place)] for tier in _EDITS]


def _line_of(node: Any) -> int:
    """Return the line that a node stands for; a method is executed if its first line is."""
    return node.body[0].lineno if isinstance(node, ast.FunctionDef) else getattr(node, "lineno", 0)


def places_of(tree: ast.Module, judging: Collection[str]) -> Iterator[EditPlace]:
    """Yield the places of a job that may be edited, outside functions that judge the family."""
    parents: Parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}

    def visit(node: ast.AST, owner: str, method: ast.AST | None) -> Iterator[EditPlace]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.While) or (isinstance(child, ast.FunctionDef) and child.name in judging):
                continue
            own, inside = owner, method
            if isinstance(child, ast.ClassDef):
                own = child.name
            elif isinstance(child, ast.FunctionDef | ast.Lambda):
                inside = child
                own = owner or getattr(child, "name", "")
            yield EditPlace(child, parents, own, inside)
            yield from visit(child, own, inside)

    yield from visit(tree, "", None)


def _put_in_line(made: ast.AST, node: Any) -> None:
    """Give the nodes of new code the place of the node that they replace."""
    for part in ast.walk(made):
        if not hasattr(part, "lineno") or part.lineno == 1 != node.lineno:
            ast.copy_location(part, node)


def code_of(node: ast.AST) -> str:
    """Return the code of a node on one line, in short."""
    text = " ".join(ast.unparse(node).split())
    return f"`{text if len(text) <= LONGEST_CODE else f'{text[:LONGEST_CODE]}...'}`"


def called(node: Any) -> str:
    """Return the name of the function or method that a node calls; "" if it is no call."""
    if not isinstance(node, ast.Call):
        return ""
    function: Any = node.func
    return str(getattr(function, "attr", getattr(function, "id", "")))


# The edits, each of one kind of mistake.


def _other_name(place: EditPlace) -> Iterator[Edit]:
    node = place.node
    fields: dict[Any, str] = {ast.Attribute: "attr", ast.Name: "id", ast.FunctionDef: "name"}
    field = fields.get(type(node), "")
    name = getattr(node, field, "")
    if other := INSTEAD.get(name):
        yield place.edit(f"{name} should be {other}", f"with {other} instead", field, other)
    if name == "close" and isinstance(node, ast.FunctionDef):
        finish = deepcopy(node)
        finish.name = "finish"
        finish.body = [each for each in node.body if ast.unparse(each) != "super().close()"]
        finish.body += ast.parse("super().finish()").body
        what = "what is left is written in close, after the last checkpoint"
        yield from with_body(place, what, "with finish instead of close", [finish])


def _other_clock(place: EditPlace) -> Iterator[Edit]:
    node = place.node
    if called(node) in CLOCKS and "ctx" in place.arguments:
        stamp = ast.parse("ctx.timestamp()", mode="eval").body
        yield place.replaced(
            f"{code_of(node)} differs from run to run", "with `ctx.timestamp()` instead", stamp
        )
    if called(node) == "timestamp":
        for other in (
            "ctx.timer_service().current_watermark()",
            "ctx.timer_service().current_processing_time()",
        ):
            value = ast.parse(other, mode="eval").body
            yield place.replaced(f"{code_of(node)} is the wrong clock", f"with `{other}` instead", value)


def _stable_value(place: EditPlace) -> Iterator[Edit]:
    node = place.node
    name = called(node)
    if name in CHANGING:
        of = ", ".join(place.arguments[:1]) or "0"
        if node.args and name in ("id", "hash"):
            of = ast.unparse(node.args[0])
        for text in (
            f"__import__('zlib').crc32(repr({of}).encode())",
            f"__import__('uuid').uuid5(__import__('uuid').NAMESPACE_OID, repr({of}))",
            "0",
            *(CLOCK_IN_EVENT_TIME.get(name, "0.5"),),
        ):
            value = ast.parse(text, mode="eval").body
            yield place.replaced(
                f"{code_of(node)} gives another value in every run",
                "with a value that follows from the record instead",
                value,
            )
    elif name in ORDINAL:
        yield place.replaced(
            f"{code_of(node)} differs between attempts",
            f"with 0 in place of {code_of(node)}",
            ast.Constant(0),
        )


def _tag_dropped(place: EditPlace) -> Iterator[Edit]:
    value = place.node.value if isinstance(place.node, ast.Yield) else None
    if isinstance(value, ast.Tuple) and len(value.elts) == 2 and isinstance(value.elts[0], ast.Name):
        tag = value.elts[0].id
        if tag.isupper():
            yield place.edit(
                f"nothing reads the side output {tag}",
                "with the row in the main output",
                "value",
                value.elts[1],
            )


def _other_field(place: EditPlace) -> Iterator[Edit]:
    node = place.node
    if (
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and type(node.slice.value) is int
    ):
        for index in range(HIGHEST_INDEX + 1):
            if index != node.slice.value:
                other = f"{ast.unparse(node.value)}[{index}]"
                yield place.edit(
                    f"{code_of(node)} is the wrong field",
                    f"with `{other}` instead",
                    "slice",
                    ast.Constant(index),
                )


def _ample_limit(place: EditPlace) -> Iterator[Edit]:
    node: Any = place.node
    parent: Any = place.parents.get(node)
    number: Any = node.value if isinstance(node, ast.Constant) else None
    if type(number) in (int, float) and number > 0 and isinstance(parent, ast.Call | ast.Assign | ast.BinOp):
        value = number * ENOUGH
        what = f"{code_of(parent)} is too short"
        yield place.replaced(what, f"with {value:,} in place of {number:,}", ast.Constant(value))


def _other_comparison(place: EditPlace) -> Iterator[Edit]:
    node = place.node
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for other in COMPARISONS.get(type(node.ops[0]), ()):
            changed = ast.Compare(node.left, [other()], node.comparators)
            yield place.edit(
                f"{code_of(node)} is the wrong comparison",
                f"with {code_of(changed)} instead",
                "ops",
                [other()],
            )


def _own_copy(place: EditPlace) -> Iterator[Edit]:
    node = place.node
    if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load):
        parent: Any = place.parents[node]
        is_value = isinstance(parent, ast.Call) and node in parent.args
        if is_value or (isinstance(parent, ast.Yield | ast.Assign | ast.Return) and parent.value is node):
            copying = ast.parse(f"__import__('copy').deepcopy({ast.unparse(node)})", mode="eval").body
            yield place.replaced(
                f"{code_of(node)} is handed over and changed later",
                f"with a copy of {code_of(node)}",
                copying,
            )


def _sorted_first(place: EditPlace) -> Iterator[Edit]:
    node: Any = place.node
    parent: Any = place.parents.get(node)
    is_iterated = isinstance(parent, ast.For | ast.comprehension) and parent.iter is node
    if is_iterated or (called(parent) in ("list", "iter", "tuple") and node in parent.args):
        ordered = ast.parse(f"iter(sorted({ast.unparse(node)}))", mode="eval").body
        yield place.replaced(f"{code_of(node)} has no order", f"with {code_of(node)} sorted", ordered)


def _rounded(place: EditPlace) -> Iterator[Edit]:
    node = place.node
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        value = ast.parse(f"__import__('builtins').round({ast.unparse(node)}, 6)", mode="eval").body
        yield place.replaced(
            f"{code_of(node)} depends on the order of addition", "with the sum rounded to 6 places", value
        )


def _current_key(place: EditPlace) -> Iterator[Edit]:
    node = place.node
    is_own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    is_read = is_own and isinstance(node.ctx, ast.Load) and "ctx" in place.arguments
    if is_read and not isinstance(place.parents[node], ast.Attribute | ast.Call):
        key = ast.parse("ctx.get_current_key()", mode="eval").body
        what = f"{code_of(node)} belongs to another key"
        yield place.replaced(what, "with `ctx.get_current_key()` instead", key)


def _one_operand(place: EditPlace) -> Iterator[Edit]:
    node = place.node
    if called(node) in ("max", "min") and len(node.args) == 2:
        for one in node.args:
            yield place.replaced(
                f"{code_of(node)} takes the wrong one", f"with {code_of(one)} alone", deepcopy(one)
            )
    is_scaled = isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv | ast.Div | ast.Mult)
    if is_scaled and isinstance(node.right, ast.Constant):
        alone = deepcopy(node.left)
        yield place.replaced(f"{code_of(node)} is in the wrong unit", f"with {code_of(alone)} alone", alone)


def _own_name(place: EditPlace) -> Iterator[Edit]:
    name = _state_name(place.node)
    if name is not None and any(
        _state_name(each) == name and each.lineno < place.node.lineno  # type: ignore[attr-defined]
        for each in ast.walk(place.method or place.node)
    ):
        others = [ast.Constant(f"{name} of line {place.node.lineno}"), *place.node.args[1:]]
        yield place.edit(f"two states share the name {name!r}", "with a name of its own", "args", others)


def _state_name(node: Any) -> object:
    """Return the name that a descriptor gives to a state; None for other nodes."""
    is_named = (
        called(node).endswith("StateDescriptor") and node.args and isinstance(node.args[0], ast.Constant)
    )
    return node.args[0].value if is_named else None


def _timer_deleted(place: EditPlace) -> Iterator[Edit]:
    """Delete the timer whose time a state holds before the state loses it."""
    node = place.node
    call: Any = node.value if isinstance(node, ast.Expr) else None
    if called(call) not in ("clear", "update"):
        return
    state = ast.unparse(call.func.value)
    calls: list[Any] = [each for each in ast.walk(place.method or node) if isinstance(each, ast.Call)]
    held = {ast.unparse(each.args[0]) for each in calls if ast.unparse(each.func) == f"{state}.update"}
    for register in calls:
        name = called(register)
        if name.startswith("register_") and name.endswith("_timer") and ast.unparse(register.args[0]) in held:
            delete = f"{ast.unparse(register.func).replace('register_', 'delete_')}({state}.value() or 0)"
            statement = ast.parse(delete).body[0]
            yield from with_body(place, "a timer is left", f"with `{delete}` before it", [statement, node])


def _written_back(place: EditPlace) -> Iterator[Edit]:
    """Insert the update of a state from which a value was computed."""
    node = place.node
    if not (
        isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
    ):
        return
    for call in ast.walk(node.value):
        name = called(call)
        if name in ("value", "get") and isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            state = ast.unparse(call.func.value)
            method = "update" if name == "value" else "put"
            given = ", ".join([*map(ast.unparse, call.args), node.targets[0].id])
            update = ast.parse(f"{state}.{method}({given})").body[0]
            yield from with_body(
                place,
                f"`{state}` is not updated",
                f"with `{state}.{method}({given})` after it",
                [node, update],
            )


def with_body(place: EditPlace, what: str, counterfactual: str, instead: list[Any]) -> Iterator[Edit]:
    """Yield the edit that puts other statements in place of one."""
    node, parent = place.node, place.parents[place.node]
    for field in ("body", "orelse", "finalbody"):
        body = getattr(parent, field, None)
        if isinstance(body, list) and node in body:
            at = body.index(node)
            yield place.edit(what, counterfactual, field, [*body[:at], *instead, *body[at + 1 :]], parent)


def _fixed_condition(place: EditPlace) -> Iterator[Edit]:
    node = place.node
    if isinstance(node, ast.If | ast.IfExp):
        for value, word in ((True, "always"), (False, "never")):
            yield place.edit(
                f"the condition {code_of(node.test)} is wrong",
                f"with it {word} true",
                "test",
                ast.Constant(value),
                at=node.test,
            )


def _left_out(place: EditPlace) -> Iterator[Edit]:
    node = place.node
    if isinstance(node, SIMPLE) and not isinstance(getattr(node, "value", None), ast.Constant):
        yield from with_body(place, f"{code_of(node)} should not be there", "without it", [ast.Pass()])
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and not isinstance(place.parents[node], ast.Expr)
    ):
        yield place.replaced(
            f"{code_of(node.func)} should not be called", "without the call", deepcopy(node.func.value)
        )


def _earlier(place: EditPlace) -> Iterator[Edit]:
    """Swap a statement with the one before it."""
    node, parent = place.node, place.parents[place.node]
    body = getattr(parent, "body", None)
    if isinstance(body, list) and node in body and body.index(node) and isinstance(node, ast.stmt):
        at = body.index(node)
        before = body[at - 1]
        if not isinstance(before, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom | ast.While):
            swapped = [*body[: at - 1], node, before, *body[at + 1 :]]
            first = code_of(node.test) if isinstance(node, ast.If) else code_of(node)
            yield place.edit(
                f"{code_of(before)} comes too early",
                f"with {first} before it",
                "body",
                swapped,
                parent,
                before,
            )


_EDITS: Final[tuple[tuple[Callable[[EditPlace], Iterator[Edit]], ...], ...]] = (
    (
        _other_name,
        _other_clock,
        _stable_value,
        _tag_dropped,
        _own_name,
        _current_key,
        _own_copy,
        _sorted_first,
        _other_comparison,
        _other_field,
        _one_operand,
        _ample_limit,
        _rounded,
        _written_back,
        _timer_deleted,
    ),
    (_left_out,),
    (_earlier,),
    (_fixed_condition,),
)
"""What a mistake is looked for with. A later row is tried only where the rows before it find nothing."""
