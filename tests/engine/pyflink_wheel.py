"""PyFlink's sources and examples, read out of the wheel that `make setup` downloads. It is never imported.

Where the machine could not download it, the tests that read it are skipped with a line that says so.
"""

from __future__ import annotations

import ast
import sys
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

FOLDER: Final = Path(sys.prefix, "pyflink")
"""Where `make setup` puts the wheel."""
VERSION: Final = "2.3.0"
EXAMPLES: Final = "pyflink/examples/datastream/"


@cache
def _texts() -> dict[str, str] | None:
    wheels = sorted(FOLDER.glob(f"apache_flink-{VERSION}-*.whl"))
    if not wheels:
        return None
    with zipfile.ZipFile(wheels[0]) as wheel:
        names = [name for name in wheel.namelist() if name.endswith(".py")]
        return {name: wheel.read(name).decode() for name in names}


def texts() -> dict[str, str]:
    """Return by path the Python files of the wheel; skip the test where there is no wheel."""
    found = _texts()
    if found is None:
        pytest.skip(f"no wheel of apache-flink {VERSION} in {FOLDER}: `make setup` could not download it")
    return found


def examples() -> dict[str, str]:
    """Return by path below the folder of examples the programs for streams."""
    return {name.removeprefix(EXAMPLES): text for name, text in texts().items() if name.startswith(EXAMPLES)}


def public_modules() -> Iterator[tuple[str, ast.Module]]:
    """Yield path and syntax tree of each module below pyflink.datastream and pyflink.common."""
    for path, text in sorted(texts().items()):
        parts = path.split("/")
        if parts[:2] in (["pyflink", "datastream"], ["pyflink", "common"]) and "tests" not in parts:
            yield path, ast.parse(text)


def _classes(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.ClassDef]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield prefix + node.name, node
            yield from _classes(node.body, f"{prefix}{node.name}.")


@cache
def classes() -> dict[str, ast.ClassDef]:
    """Return each class by its name; that of a class within another one is `Outer.Inner`."""
    return {name: node for _, tree in public_modules() for name, node in _classes(tree.body)}


def _own_members(node: ast.ClassDef) -> Iterator[tuple[str, list[str] | None]]:
    """Yield what the body of a class names: parameters of a method, none for a class, None for a value."""
    for each in node.body:
        match each:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, _parameters(each)
            case ast.ClassDef(name=name):
                yield name, []
            case ast.Assign(targets=targets):
                yield from ((target.id, None) for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name, None


def _parameters(method: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    given = method.args
    names = [each.arg for each in [*given.posonlyargs, *given.args]]
    is_static = any(
        isinstance(each, ast.Name) and each.id == "staticmethod" for each in method.decorator_list
    )
    names = names if is_static else names[1:]
    names += [given.vararg.arg] if given.vararg else []
    names += [each.arg for each in given.kwonlyargs]
    return names + ([given.kwarg.arg] if given.kwarg else [])


def _bases(name: str) -> Iterator[str]:
    """Yield the base classes that the wheel defines; one beside a nested class comes first."""
    outer = name.rpartition(".")[0]
    for base in classes()[name].bases:
        written = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
        for found in (f"{outer}.{written}" if outer else written, written):
            if found in classes() and found != name:
                yield found
                break


@cache
def members(name: str) -> dict[str, list[str] | None]:
    """Return the public members of a class, inherited ones too, by name.

    Those of a method are its parameters without `self`; none for a class within the class, None for a value.
    """
    found: dict[str, list[str] | None] = {}
    for base in reversed(list(_bases(name))):
        found.update(members(base))
    found.update((each, given) for each, given in _own_members(classes()[name]) if not each.startswith("_"))
    return found


def public_classes() -> list[str]:
    """Return the names of the classes that are public, with those of the classes within them."""
    return [name for name in classes() if not any(part.startswith("_") for part in name.split("."))]


def public_functions() -> set[str]:
    """Return the names of the functions that stand in no class."""
    functions = (each for _, tree in public_modules() for each in tree.body)
    return {each.name for each in functions if isinstance(each, ast.FunctionDef) and each.name[0] != "_"}


def is_generic(node: ast.ClassDef) -> bool:
    """Return whether a class takes subscripts: it inherits from `Generic[...]` or from a class with some."""
    return any(isinstance(base, ast.Subscript) for base in node.bases)
