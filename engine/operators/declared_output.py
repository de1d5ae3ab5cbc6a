"""The declared type of what an operator emits, applied to each buffer on its way to the next operator.

In PyFlink the declared type chooses the coder by which values cross from Python to the JVM and back. Without
a declared type they are pickled, and pass as they are. Rules:

- Each value is checked once, where it leaves the operator that has declared the type. A value that fits is
  passed on as the same object.
- What PyFlink would turn into a value of the type is converted: a tuple into a row, a text of a subclass into
  a str. Anything else ends the job: it would come again after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

from onceproof.engine.elements import Record
from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.types import TypeInformation, WrongValue
from onceproof.engine.types.fitting import quick_check

_Emit: TypeAlias = Callable[[list[Record]], None]
_ProcessBatch: TypeAlias = Callable[[list[Record], int], list[Record]]

_LONGEST_SHOWN: Final = 120


class UndeclaredValue(UnrecoverableError):
    """An operator emits a value that its declared type does not admit."""


class DeclaredOutput:
    """An output with a declared type; tasks of all attempts may share it. ``subject`` names who emits."""

    __slots__ = ("_convert", "_fits", "_kind", "_subject")

    def __init__(self, subject: str, kind: TypeInformation) -> None:
        self._subject = subject
        self._kind = kind
        self._convert = kind.converter()
        self._fits = None if self._convert is None else quick_check(kind)

    @property
    def takes_anything(self) -> bool:
        """Return whether the type leaves every value as it is."""
        return self._convert is None

    @property
    def is_simple(self) -> bool:
        """Return whether whole buffers are checked at once, because values seldom need conversion."""
        return self._fits is not None

    def apply(self, records: list[Record]) -> list[Record]:
        """Return the records with values of the declared type; the same list if all of them fit.

        Raises UndeclaredValue.
        """
        fits = self._fits
        if fits is not None and fits(records):
            return records
        convert = self._convert
        if convert is None:
            return records
        try:
            return [(convert(value), timestamp) for value, timestamp in records]
        except WrongValue:
            # The record that it was raised for is found by converting again, which changes nothing.
            return [(self.value_of(value), timestamp) for value, timestamp in records]

    def value_of(self, value: Any) -> Any:
        """Return one value as a value of the declared type; raises UndeclaredValue."""
        convert = self._convert
        if convert is None:
            return value
        try:
            return convert(value)
        except WrongValue as error:
            raise UndeclaredValue(self._message(value, error)) from error

    def before(self, process: _ProcessBatch) -> _ProcessBatch:
        """Return the next operator of the chain behind this output."""
        apply = self.apply
        return lambda records, input_index: process(apply(records), input_index)

    def before_outputs(self, emits: Sequence[_Emit]) -> _Emit:
        """Return all outputs of the task behind this output."""
        apply = self.apply

        def emit_all(records: list[Record]) -> None:
            declared = apply(records)
            for emit in emits:
                emit(declared)

        return emit_all

    def _message(self, value: Any, error: WrongValue) -> str:
        where = ""
        if error.path:
            shown = repr(value)
            if len(shown) > _LONGEST_SHOWN:
                shown = shown[: _LONGEST_SHOWN - 3] + "..."
            where = f" ({', '.join(reversed(error.path))} of {shown})"
        return (
            f"{self._subject} declares {self._kind.name}: {error}{where}:"
            " emit values of this type, or declare the type of these"
        )


@lru_cache(maxsize=4096)
def declared_output(subject: str, name: str, kind: TypeInformation | None) -> DeclaredOutput | None:
    """Return the output of ``subject name``; None if its type is not declared, or takes every value."""
    if kind is None:
        return None
    output = DeclaredOutput(f"{subject} {name!r}", kind)
    return None if output.takes_anything else output
