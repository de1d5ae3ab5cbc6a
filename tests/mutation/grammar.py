"""The edits of the engine that mutation draws from: a fixed grammar over the syntax trees of the core.

Rules:

- An edit replaces one span of one function's text. `ast` gives the exact span of each expression and
  statement, so the rest of the file, its comments and its lines stay as they are; no parser of whole
  formatting (libcst) is needed.
- Each of the six kinds is drawn equally often, and each place of a kind in the core with the same chance.
- Annotations, docstrings, decorators and what a `raise` says are left out: no edit of them changes rows.
- Draws follow from the seed and from the text of the core only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Final

CORE: Final = ("task", "checkpoint", "state", "operators", "windows", "watermarks", "job")
KINDS: Final = ("comparison", "constant", "dropped call", "swapped arguments", "early return", "off by one")

_OPPOSITES: Final[dict[type[ast.cmpop], str]] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_LEAVES: Final = (ast.Return, ast.Raise, ast.Pass, ast.Break, ast.Continue, ast.Global, ast.Nonlocal)
_SIZES: Final = ("len", "min", "max")
_SYMMETRIC: Final = ("min", "max")


@dataclass(frozen=True, slots=True)
class Edit:
    """One small mistake at one place. It is named by all fields but the span, so edits elsewhere keep it."""

    path: str
    """From the root of the checkout, such as ``engine/task/task.py``."""
    function: str
    """The qualified name."""
    kind: str
    before: str
    """The line that changes, or the first of them."""
    after: str
    nth: int
    """Its number among the edits of the function that look alike."""
    start: int = field(compare=False)
    """Where the replaced bytes begin, in the file's UTF-8."""
    end: int = field(compare=False)
    text: str = field(compare=False)
    """What replaces them."""

    def applied_to(self, source: bytes) -> bytes:
        """Return the source of the file with the edit."""
        return source[: self.start] + self.text.encode() + source[self.end :]

    @property
    def package(self) -> str:
        """The package of the core that it is in."""
        return self.path.split("/")[1]


def core_edits(root: Path) -> Sequence[Edit]:
    """Return all edits of the core of a checkout, in the order of its files and lines."""
    return [
        edit
        for package in CORE
        for path in sorted((root / "engine" / package).rglob("*.py"))
        for edit in edits_of(path.read_bytes(), path.relative_to(root).as_posix())
    ]


def draw(edits: Sequence[Edit], seed: int) -> Iterator[Edit]:
    """Yield the edits in the order of a seed, the kinds by turns, none twice."""
    chance = Random(seed)
    by_kind = {kind: [edit for edit in edits if edit.kind == kind] for kind in KINDS}
    for rest in by_kind.values():
        chance.shuffle(rest)
    for turn in count():
        rest = by_kind[KINDS[turn % len(KINDS)]]
        if rest:
            yield rest.pop()
        elif not any(by_kind.values()):
            return


def edits_of(source: bytes, path: str) -> Sequence[Edit]:
    """Return the edits of a module, in the order of its lines."""
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    seen: dict[tuple[str, ...], int] = {}
    edits = []
    for function, kind, start, end, text in sorted(
        finder.found, key=lambda each: (each[2], each[3], each[1])
    ):
        first = source.rfind(b"\n", 0, start) + 1
        last = source.find(b"\n", start)
        before = source[first:last].decode().strip()
        rest = b"" if end > last else source[end:last]
        after = (source[first:start] + text.encode() + rest).decode().strip()
        name = (function, kind, before, after)
        seen[name] = seen.get(name, 0) + 1
        edits.append(Edit(path, *name, seen[name], start, end, text))
    return edits


class _Finder(ast.NodeVisitor):
    """Collects (function, kind, start, end, replacement) of each edit of one module."""

    def __init__(self, source: bytes) -> None:
        self.found: list[tuple[str, str, int, int, str]] = []
        self._source = source
        self._starts = [0, *(place + 1 for place, byte in enumerate(source) if byte == ord("\n"))]
        self._names: list[str] = []
        self._depth = 0

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr) -> str:
        return self._source[self._start(node) : self._end(node)].decode()

    def _add(self, kind: str, start: int, end: int, text: str) -> None:
        if self._depth:
            self.found.append((".".join(self._names), kind, start, end, text))

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._names.append(node.name)
        for each in node.body:
            self.visit(each)
        self._names.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._names.append(node.name)
        self._depth += 1
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        self._statements(body)
        self._depth -= 1
        self._names.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        """What it says changes no rows."""

    def visit_If(self, node: ast.If) -> None:
        if self._text(node.test) != "TYPE_CHECKING":
            self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Spans within it are not exact before Python 3.12."""

    def _statements(self, body: Sequence[ast.stmt]) -> None:
        for each in body:
            self.visit(each)

    def visit(self, node: ast.AST) -> None:
        is_early = isinstance(node, ast.stmt) and not isinstance(
            node, (*_LEAVES, ast.FunctionDef, ast.ClassDef)
        )
        if is_early and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            self._add("early return", self._start(node), self._end(node), "return None")
        super().visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._add("dropped call", self._start(node), self._end(node), "pass")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        left: ast.expr = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            self._between(left, right, _OPPOSITES[type(operator)])
            left = right
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other = "or" if isinstance(node.op, ast.And) else "and"
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between(left, right, other)
        self.generic_visit(node)

    def _between(self, left: ast.expr, right: ast.expr, operator: str) -> None:
        """Replace the operator between two operands; brackets and comments around it are left alone."""
        start, end = self._end(left), self._start(right)
        old = self._source[start:end].decode()
        word = old.strip("() \n")
        if word and "#" not in old:
            first = start + len(old[: old.index(word)].encode())
            self._add("comparison", first, first + len(word.encode()), operator)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            # The operand may begin with a bracket that is not its own.
            start = self._start(node)
            self._add("comparison", start, start + len("not "), "")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        match node.value:
            case bool():
                self._add("constant", self._start(node), self._end(node), str(not node.value))
            case int():
                self._add("constant", self._start(node), self._end(node), "0" if node.value else "2")
                self._add("off by one", self._start(node), self._end(node), str(node.value + 1))
                if node.value:
                    self._add("off by one", self._start(node), self._end(node), str(node.value - 1))

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in _SIZES:
            for change in ("+", "-"):
                text = f"({self._text(node)} {change} 1)"
                self._add("off by one", self._start(node), self._end(node), text)
        for left, right in zip(node.args, node.args[1:], strict=False):
            is_starred = isinstance(left, ast.Starred) or isinstance(right, ast.Starred)
            is_symmetric = isinstance(node.func, ast.Name) and node.func.id in _SYMMETRIC
            if not (is_starred or is_symmetric) and self._text(left) != self._text(right):
                between = self._source[self._end(left) : self._start(right)].decode()
                text = self._text(right) + between + self._text(left)
                self._add("swapped arguments", self._start(left), self._end(right), text)
        self.generic_visit(node)

    def visit_arguments(self, node: ast.arguments) -> None:
        """Those of lambdas; functions visit their defaults themselves."""
