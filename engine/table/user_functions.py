"""The user's functions in Python, as plans call them by name.

Rules:

- ``TableSettings.functions`` has, under each name, a ``PythonFunction`` or a plain callable. A plain callable
  takes and returns values of ``values.py``; a PythonFunction those of ``python_values.py``.
- Each operator has a copy of a function object, opened before its first call.
- What a function raises fails the job with the class and message of Flink's Python.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from msgspec import Struct

from onceproof.engine.table.data_views import put_views, take_views, views_in
from onceproof.engine.table.expressions.registry import FunctionFailed
from onceproof.engine.table.plans import UnsupportedPlan
from onceproof.engine.table.python_values import Convert, from_python, row_from_python, same, to_python
from onceproof.engine.table.types import LogicalType
from onceproof.engine.types.row import Row as UserRow

PYTHON_EXCEPTION: Final = "pemja.core.PythonException"

SCALAR: Final = "scalar"
TABLE: Final = "table"
AGGREGATE: Final = "aggregate"
TABLE_AGGREGATE: Final = "table-aggregate"


class FunctionContext:
    """The argument of ``open`` of a function object (PyFlink: FunctionContext)."""

    def __init__(self, job_parameters: dict[str, str] | None = None) -> None:
        self._job_parameters = job_parameters or {}

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a parameter of the job, or the default."""
        return self._job_parameters.get(key, default_value)


class PythonFunction(Struct, frozen=True):
    """A function of the user.

    Args:
        kind: SCALAR, TABLE, AGGREGATE or TABLE_AGGREGATE.
        function: a callable, or an object with ``eval`` (scalars and tables) or ``accumulate``.
        takes_row: whether all arguments come as one Row.
        is_pandas: whether it takes and returns a Series for each column.
    """

    kind: str
    function: Any
    takes_row: bool = False
    is_pandas: bool = False

    def scalar(self, operands: Sequence[LogicalType], result: LogicalType) -> Callable[..., Any]:
        """Return the function from the values of the operands to the value of the result."""
        call, convert = self._call(operands), from_python(result)
        if self.is_pandas:
            call = _by_series(call)

        def evaluate(*values: Any) -> Any:
            try:
                return convert(call(*values))
            except Exception as error:
                raise failed(error) from error

        return evaluate

    def rows(self, operands: Sequence[LogicalType], result: LogicalType) -> Callable[..., Any]:
        """Return the function from the values of the operands to the rows of a table function."""
        call, to_row = self._call(operands), row_from_python(result)
        is_single = len(result.fields) == 1

        def evaluate(*values: Any) -> Iterable[tuple[Any, ...]]:
            try:
                return [to_row(_row_of(each, is_single)) for each in _iterable(call(*values))]
            except Exception as error:
                raise failed(error) from error

        return evaluate

    def aggregate(self, operands: Sequence[LogicalType], result: LogicalType) -> AggregateCalls:
        """Return the methods of an aggregate function, on values of ``values.py``."""
        return AggregateCalls(self, operands, result)

    def opened(self) -> Any:
        """Return a copy of the function, opened."""
        function = copy.deepcopy(self.function)
        if hasattr(function, "open"):
            function.open(FunctionContext())
        return function

    def _call(self, operands: Sequence[LogicalType]) -> Callable[..., Any]:
        """Return the call on values of ``values.py``; the function is opened when it comes first."""
        if self.takes_row:
            fields = [to_python(each) for each in operands]
            opened: list[Any] = []

            def call_with_row(*values: Any) -> Any:
                if not opened:
                    opened.append(_method(self.opened()))
                row = UserRow(*[field(value) for field, value in zip(fields, values, strict=True)])
                return opened[0](row)

            return call_with_row
        converts = [to_python(each) for each in operands]
        if all(convert is same for convert in converts):
            return _Opening(self)
        call = _Opening(self)
        return lambda *values: call(
            *[convert(value) for convert, value in zip(converts, values, strict=True)]
        )


class _Opening:
    """Calls a function, which is opened before the first call."""

    def __init__(self, function: PythonFunction) -> None:
        self._function = function
        self._call: Callable[..., Any] | None = None

    def __call__(self, *values: Any) -> Any:
        call = self._call
        if call is None:
            call = self._call = _method(self._function.opened())
        return call(*values)


class AggregateCalls:
    """An aggregate function of the user, whose arguments and results are values of ``values.py``.

    Its accumulator stays the user's: plain data, such as a list or a Row.
    """

    def __init__(
        self, function: PythonFunction, operands: Sequence[LogicalType], result: LogicalType
    ) -> None:
        self._function = function.opened()
        self._operands = [to_python(each) for each in operands]
        self._result: Convert = from_python(result)
        self._views = views_in(self._try(self._function.create_accumulator))

    def create_accumulator(self) -> Any:
        accumulator = self._try(self._function.create_accumulator)
        take_views(accumulator, self._views)
        return accumulator

    def accumulate(self, accumulator: Any, *values: Any) -> None:
        self._on(accumulator, self._function.accumulate, *self._arguments(values))

    def retract(self, accumulator: Any, *values: Any) -> None:
        self._on(accumulator, self._function.retract, *self._arguments(values))

    def merge(self, accumulator: Any, others: Any) -> None:
        for other in others:
            put_views(other, self._views)
        self._on(accumulator, self._function.merge, others)
        for other in others:
            take_views(other, self._views)

    def get_value(self, accumulator: Any) -> Any:
        return self._result(self._on(accumulator, self._function.get_value))

    def _on(self, accumulator: Any, method: Callable[..., Any], *arguments: Any) -> Any:
        """Call a method on an accumulator, with views around its lists and dicts meanwhile."""
        if not self._views:
            return self._try(method, accumulator, *arguments)
        put_views(accumulator, self._views)
        found = self._try(method, accumulator, *arguments)
        take_views(accumulator, self._views)
        return found

    def _arguments(self, values: Sequence[Any]) -> list[Any]:
        return [convert(value) for convert, value in zip(self._operands, values, strict=True)]

    def _try(self, method: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return method(*arguments)
        except Exception as error:
            raise failed(error) from error


def failed(error: Exception) -> FunctionFailed:
    """Return the error with which Flink's Python ends the job."""
    return FunctionFailed(f"{type(error)}: {error}", PYTHON_EXCEPTION)


def _method(function: Any) -> Callable[..., Any]:
    found: Callable[..., Any] = function.eval if hasattr(function, "eval") else function
    return found


def _iterable(found: Any) -> Iterable[Any]:
    """Return the rows of a table function, which may return one row, or None."""
    if found is None:
        return ()
    return (found,) if isinstance(found, str | tuple | UserRow) else found


def _row_of(value: Any, is_single: bool) -> Any:
    return (value,) if is_single and not isinstance(value, tuple | UserRow) else value


def _by_series(call: Callable[..., Any]) -> Callable[..., Any]:
    """Call a function on Series of pandas with one row."""
    try:
        import pandas
    except ModuleNotFoundError:
        raise UnsupportedPlan("a function of pandas, and pandas, which is not installed,") from None

    def evaluate(*values: Any) -> Any:
        found = call(*[pandas.Series([value]) for value in values])
        value = found.tolist()[0] if hasattr(found, "tolist") else found
        return None if value is None or value != value else value

    return evaluate
