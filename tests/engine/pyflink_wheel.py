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


def is_generic(node: ast.ClassDef) -> bool:
    """Return whether a class takes subscripts: it inherits from `Generic[...]` or from a class with some."""
    return any(isinstance(base, ast.Subscript) for base in node.bases)
