"""The import graph of the product by room: ``python -m tests.rooms [--out FILE.svg]``.

A room is a folder of modules. It stands one floor above the highest room that it imports from; rooms that
import each other in a circle share a floor. An arrow is an import of one room by another; it points upward
where a room imports from a room that the design puts above it (`pyproject.toml` holds the design).
Imports for type checking count, too.
"""

from __future__ import annotations

import argparse
import ast
import gc
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parents[1]
FOLDERS = ("engine", "harness", "scenarios", "reports")
PRODUCT = ("onceproof", *FOLDERS)
NAMESPACE = "onceproof."


@cache
def harness_layers() -> tuple[frozenset[str], ...]:
    """Return the rooms of the harness, lowest layer first, as pyproject.toml has them for import-linter."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    [layers] = [each["layers"] for each in contracts if each["id"] == "harness-layers"]
    return tuple(frozenset(layer.split(" | ")) for layer in reversed(layers))


@dataclass(frozen=True)
class Module:
    """A module with its full name, as in `engine.task.task`, its text and its syntax tree."""

    name: str
    text: str
    tree: ast.Module
    is_package: bool = False

    @classmethod
    def of(cls, name: str, text: str, is_package: bool = False) -> Module:
        """Return the module of a text; SyntaxError where it is none."""
        return cls(name, text, ast.parse(text), is_package)


@dataclass(frozen=True)
class Import:
    """One name that a module imports, made absolute, with the function it happens in, if any."""

    target: str
    line: int
    function: str | None


Problems: TypeAlias = Iterator[tuple[int, str]]
"""What is wrong in a module: the line, and what is to be changed."""
Rule: TypeAlias = Callable[[Module], Problems]


@cache
def modules(package: str) -> tuple[Module, ...]:
    """Return the modules of a top-level folder, by name; the pages below reports/out are none."""
    # Each collection of garbage would look through all trees so far: four times the time of parsing.
    gc.disable()
    try:
        return tuple(_parsed(package))
    finally:
        # The trees stay until the end of the process.
        gc.freeze()
        gc.enable()


def _parsed(package: str) -> Iterator[Module]:
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[:2] == ("reports", "out"):
            continue
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        yield Module.of(name, path.read_text(encoding="utf-8"), is_package)


@cache
def imports(module: Module) -> tuple[Import, ...]:
    """Return what a module imports anywhere in it; names of the product stand without the namespace."""
    found: list[Import] = []

    def visit(node: ast.AST, function: str | None) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        for target in imported_names(module, node):
            found.append(Import(target.removeprefix(NAMESPACE), getattr(node, "lineno", 1), function))
        for child in ast.iter_child_nodes(node):
            visit(child, function)

    visit(module.tree, None)
    return tuple(found)


def imported_names(module: Module, node: ast.AST) -> list[str]:
    """Return the full names that one node of a syntax tree imports."""
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=source, names=names, level=level):
            base = module.name.split(".")
            if level:
                base = base[: len(base) - level + (1 if module.is_package else 0)]
            prefix = ".".join([*(base if level else []), *([source] if source else [])])
            return [f"{prefix}.{alias.name}" for alias in names]
        case ast.Call(
            func=ast.Name(id="__import__" | "import_module"), args=[ast.Constant(value=str(name)), *_]
        ):
            return [name]
        case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(name)), *_]):
            return [name]
    return []


def check(rule: Rule, package: str) -> None:
    """Fail with every place below a top-level folder that a rule objects to."""
    problems = [
        f"{module.name.replace('.', '/')}{'/__init__' if module.is_package else ''}.py:{line} {problem}"
        for module in modules(package)
        for line, problem in rule(module)
    ]
    assert not problems, "\n" + "\n".join(problems)


def within(name: str, package: str) -> bool:
    """Return whether a module is a package or stands in it."""
    return name == package or name.startswith(package + ".")


def module_graph(found: Iterable[Module]) -> dict[str, set[str]]:
    """Return which modules each module imports, packages' own modules included."""
    known = {module.name: module for module in found}
    graph: dict[str, set[str]] = {name: set() for name in known}
    for name, module in known.items():
        for item in imports(module):
            target = item.target
            while target and target not in known:
                target = target.rpartition(".")[0]
            if target and target != name:
                graph[name].add(target)
    return graph


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups of two and more modules that import each other in circles (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[list[str]] = []

    def connect(start: str) -> None:
        work: list[tuple[str, Iterator[str]]] = [(start, iter(sorted(graph[start])))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(sorted(graph[target]))))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        group.append(member)
                        if member == node:
                            break
                    if len(group) > 1:
                        found.append(sorted(group))

    for name in sorted(graph):
        if name not in index:
            connect(name)
    return sorted(found)


def room_of(name: str) -> str:
    """Return the room of a module: its package's folder, or the top-level folder outside the harness."""
    parts = name.split(".")
    return parts[1] if parts[0] == "harness" and len(parts) > 1 else parts[0]


def row_of(room: str) -> int | None:
    """Return the row of a harness room in the design, counted from the bottom; none if it has no row."""
    return next((row for row, rooms in enumerate(harness_layers()) if room in rooms), None)


@dataclass(frozen=True)
class Rooms:
    """The rooms of the harness: which imports which, the floor of each, and what breaks the design."""

    arrows: dict[tuple[str, str], int]
    """(room, imported room): in how many places."""
    floors: dict[str, int]
    upward: list[tuple[str, str]]
    circles: list[list[str]]
    """Modules of the product that import each other."""

    @classmethod
    def read(cls) -> Rooms:
        """Read the tree as it is."""
        found = [module for package in PRODUCT for module in modules(package)]
        graph = module_graph(found)
        arrows: dict[tuple[str, str], int] = defaultdict(int)
        for name, targets in graph.items():
            for target in targets:
                if within(name, "harness") and within(target, "harness"):
                    pair = (room_of(name), room_of(target))
                    if pair[0] != pair[1] and "harness" not in pair:
                        arrows[pair] += 1
        rooms = {room for pair in arrows for room in pair}
        by_room = {room: {b for a, b in arrows if a == room} for room in rooms}
        upward = [pair for pair in sorted(arrows) if not goes_down(*pair)]
        return cls(dict(arrows), floors_of(by_room), upward, circles(graph))


def goes_down(room: str, imported: str) -> bool:
    """Return whether the design lets a room import another one."""
    row, other = row_of(room), row_of(imported)
    return row is not None and other is not None and other < row


def floors_of(graph: Mapping[str, set[str]]) -> dict[str, int]:
    """Return the floor of each room; the rooms of a circle share one."""
    together = {name: frozenset(group) for group in circles(graph) for name in group}
    floors: dict[str, int] = {}

    def floor(room: str) -> int:
        if room not in floors:
            group = together.get(room, frozenset({room}))
            below = {target for member in group for target in graph[member]} - group
            height = 1 + max((floor(target) for target in below), default=-1)
            floors.update(dict.fromkeys(group, height))
        return floors[room]

    for room in sorted(graph):
        floor(room)
    return floors


def drawing(rooms: Rooms) -> str:
    """Return the rooms as an SVG picture, lowest floor at the bottom; arrows upward are red."""
    width, height, gap, margin = 150, 40, 70, 30
    rows: dict[int, list[str]] = defaultdict(list)
    for room, floor in sorted(rooms.floors.items()):
        rows[floor].append(room)
    columns = max(map(len, rows.values()), default=1)
    size = (margin * 2 + columns * (width + gap) - gap, margin * 2 + len(rows) * (height + gap) - gap)
    place = {}
    for floor, names in rows.items():
        left = (size[0] - len(names) * (width + gap) + gap) / 2
        for column, name in enumerate(names):
            place[name] = (
                left + column * (width + gap),
                size[1] - margin - height - floor * (height + gap),
            )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}"'
        ' font-family="sans-serif" font-size="14">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for (room, imported), count in sorted(rooms.arrows.items()):
        (x, y), (to_x, to_y) = place[room], place[imported]
        colour = "#c00" if (room, imported) in rooms.upward else "#999"
        parts.append(
            f'<line x1="{x + width / 2}" y1="{y + height}" x2="{to_x + width / 2}" y2="{to_y}"'
            f' stroke="{colour}" stroke-width="{min(4, 1 + count / 15):.1f}">'
            f"<title>{escape(room)} imports {escape(imported)} in {count} places</title></line>"
        )
    for room, (x, y) in sorted(place.items()):
        parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="#eef" stroke="#336"/>'
            f'<text x="{x + width / 2}" y="{y + height / 2 + 5}" text-anchor="middle">{escape(room)}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def summary(rooms: Rooms) -> str:
    """Return the same in words: a line for each floor, then the figures, then what breaks the design."""
    lines = []
    for floor in sorted(set(rooms.floors.values()), reverse=True):
        names = sorted(room for room, each in rooms.floors.items() if each == floor)
        lines.append(f"floor {floor}: {', '.join(names)}")
    floors = len(set(rooms.floors.values()))
    lines.append(
        f"{len(rooms.floors)} rooms on {floors} floors, {len(rooms.arrows)} arrows, {len(rooms.upward)}"
        f" upward, {len(rooms.circles)} circles between modules"
    )
    lines += [f"upward: {room} -> {imported}" for room, imported in rooms.upward]
    lines += [f"circle: {', '.join(group)}" for group in rooms.circles]
    return "\n".join(lines)


def main() -> int:
    """Print the figures, and write the drawing where --out says."""
    parser = argparse.ArgumentParser(prog="python -m tests.rooms", description=__doc__)
    parser.add_argument("--out", type=Path, help="write the drawing there, as SVG")
    chosen = parser.parse_args()
    rooms = Rooms.read()
    if chosen.out:
        chosen.out.write_text(drawing(rooms), encoding="utf-8")
    print(summary(rooms))
    return 1 if rooms.upward or rooms.circles else 0


if __name__ == "__main__":
    sys.exit(main())
