"""What strategies of AsyncDataStream decide by (PyFlink: pyflink.datastream.async_retry_predicates)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def empty_result_predicate(result: Sequence[Any] | None) -> bool:
    """Return whether there is no result."""
    return result is None or len(result) == 0


def has_exception_predicate(error: Exception | None) -> bool:
    """Return whether there is an error."""
    return error is not None


def exception_type_predicate(
    error: Exception | None, expected_error_type: type[BaseException] | tuple[type[BaseException], ...]
) -> bool:
    """Return whether the error is of a type; ``functools.partial`` gives the type."""
    return isinstance(error, expected_error_type)
