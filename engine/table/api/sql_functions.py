"""Functions in Python that a statement declares: CREATE FUNCTION ... LANGUAGE PYTHON."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any, Final

from onceproof.engine.graph import InvalidJob

_DECLARING: Final = re.compile(
    r"CREATE\s+(?P<temporary>TEMPORARY\s+(?P<system>SYSTEM\s+)?)?FUNCTION\s+(IF\s+NOT\s+EXISTS\s+)?"
    r"(?P<name>[\w.`]+)\s+AS\s+'(?P<path>[^']+)'\s+LANGUAGE\s+PYTHON\b",
    re.IGNORECASE,
)


def python_function(statement: str) -> tuple[str, Any, str] | None:
    """Return what a statement declares: a name, the function, and the method that registers it.

    Raises:
        InvalidJob: there is no such function.
    """
    match = _DECLARING.match(statement)
    if match is None:
        return None
    module, _, attribute = match["path"].rpartition(".")
    try:
        function = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidJob(f"there is no function {match['path']}: {error}") from None
    method = "create_temporary_system_function" if match["system"] else "create_temporary_function"
    return match["name"].replace("`", ""), function, method
