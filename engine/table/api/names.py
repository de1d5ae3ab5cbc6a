"""The names of pyflink.table and its modules that the engine has, and why the others are missing.

``NAMES`` is what a program may import from any of these modules. ``missing_names.json`` has the names of
PyFlink 2.3 that are missing, members of classes as ``Class.member``, by reason; a test compares both with
PyFlink's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from onceproof.engine.table import data_views
from onceproof.engine.table.api import (
    descriptors,
    environment,
    expression,
    result,
    statement_set,
    table,
    types,
    udf,
    window,
)
from onceproof.engine.table.user_functions import FunctionContext
from onceproof.engine.types.row import Row
from onceproof.engine.types.row_kind import RowKind

FILE: Final = "missing_names.json"


def _classes(*modules: Any) -> dict[str, Any]:
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and not name.startswith("_")
    }


CLASSES: Final[Mapping[str, Any]] = {
    **_classes(
        descriptors, environment, expression, result, statement_set, table, types, window, udf, data_views
    ),
    **{name: getattr(expression, name) for name in dir(expression) if name.startswith(("Json", "Time"))},
    **{name: getattr(udf, name) for name in ("udf", "udtf", "udaf", "udtaf")},
    "CloseableIterator": result.CloseableRows,
    "FunctionContext": FunctionContext,
    "Row": Row,
    "RowKind": RowKind,
}
EXPRESSIONS: Final[Mapping[str, Any]] = expression.NAMES
"""Those of pyflink.table.expressions."""
NAMES: Final[Mapping[str, Any]] = {**CLASSES, **EXPRESSIONS}


@cache
def missing_names() -> Mapping[str, str]:
    """Return why names of PyFlink's tables are missing, by name."""
    groups = json.loads(files(__package__).joinpath(FILE).read_text(encoding="utf-8"))
    return {name: reason for reason, names in groups.items() for name in names.split()}


def why_missing(name: str) -> str | None:
    """Return the message for a name of PyFlink's tables that is missing here; None for any other name."""
    reason = missing_names().get(name)
    return None if reason is None else f"{name} of PyFlink is missing here: {reason}"
