"""The user's functions, under PyFlink's names (pyflink.table.udf).

A function of a program is known to the planner by a name and its types, and to the job as a
``PythonFunction``. A function that was never registered gets the name that PyFlink gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onceproof.engine.table.api.expression import Expression
from onceproof.engine.table.api.recorded import Recorded
from onceproof.engine.table.api.types import DataType, logical_of
from onceproof.engine.table.user_functions import (
    AGGREGATE,
    SCALAR,
    TABLE,
    TABLE_AGGREGATE,
    FunctionContext,
    PythonFunction,
)


class UserDefinedFunction:
    """What all function objects have (PyFlink: UserDefinedFunction)."""

    def open(self, function_context: FunctionContext) -> None:
        """Prepare; called once in each operator."""

    def close(self) -> None:
        """Release what ``open`` took."""

    def is_deterministic(self) -> bool:
        """Return whether equal arguments give equal results."""
        return True


class ScalarFunction(UserDefinedFunction):
    """A function with one result (PyFlink: ScalarFunction); ``eval`` computes it."""


class TableFunction(UserDefinedFunction):
    """A function with any number of rows (PyFlink: TableFunction); ``eval`` yields them."""


class AggregateFunction(UserDefinedFunction):
    """A function over many rows (PyFlink: AggregateFunction)."""

    def create_accumulator(self) -> Any:
        """Return an empty accumulator."""
        raise NotImplementedError

    def accumulate(self, accumulator: Any, *args: Any) -> None:
        """Add a row to an accumulator."""
        raise NotImplementedError

    def retract(self, accumulator: Any, *args: Any) -> None:
        """Take a row out of an accumulator."""
        raise RuntimeError("Method retract is not implemented")

    def merge(self, accumulator: Any, accumulators: Any) -> None:
        """Add other accumulators to one."""
        raise RuntimeError("Method merge is not implemented")

    def get_value(self, accumulator: Any) -> Any:
        """Return the result of an accumulator."""
        raise NotImplementedError


class TableAggregateFunction(AggregateFunction):
    """A function over many rows with many rows (PyFlink: TableAggregateFunction)."""

    def emit_value(self, accumulator: Any) -> Any:
        """Yield the rows of an accumulator."""
        raise NotImplementedError


class VectorizedAggregate(AggregateFunction):
    """Calls an aggregate function of pandas, which takes a Series for each column of a group.

    Flink plans one over windows alone; there each is called once for each window.
    """

    def __init__(self, function: Any) -> None:
        self._function = function

    def is_deterministic(self) -> bool:
        """Return what the function says of itself."""
        return not isinstance(self._function, AggregateFunction) or self._function.is_deterministic()

    def open(self, function_context: FunctionContext) -> None:
        """Open the function."""
        if isinstance(self._function, AggregateFunction):
            self._function.open(function_context)

    def create_accumulator(self) -> list[Any]:
        """Return a group without rows."""
        return []

    def accumulate(self, accumulator: list[Any], *args: Any) -> None:
        """Add a row."""
        accumulator.append(args)

    def retract(self, accumulator: list[Any], *args: Any) -> None:
        """Take a row out."""
        accumulator.remove(args)

    def merge(self, accumulator: list[Any], accumulators: Any) -> None:
        """Add the rows of other groups."""
        for other in accumulators:
            accumulator += other

    def get_value(self, accumulator: list[Any]) -> Any:
        """Return the result of the group; None if it has no rows."""
        if not accumulator:
            return None
        import pandas

        columns = [pandas.Series(list(column)) for column in zip(*accumulator, strict=True)]
        if not isinstance(self._function, AggregateFunction):
            return _plain(self._function(*columns))
        inner = self._function.create_accumulator()
        self._function.accumulate(inner, *columns)
        return _plain(self._function.get_value(inner))


def _plain(value: Any) -> Any:
    """Return numbers of numpy as those of Python."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return value.item() if hasattr(value, "item") else value


class UserFunction(Recorded):
    """A function of the program, which is called with expressions.

    Args:
        name: that under which the planner has it.
        python: what the job calls.
        result: the type of the result; of a table function the ROW of its rows.
        accumulator: the type of the accumulator of an aggregate function.
        is_deterministic: whether equal arguments give equal results.
    """

    def __init__(
        self,
        name: str,
        python: PythonFunction,
        result: DataType,
        accumulator: DataType | None = None,
        is_deterministic: bool = True,
    ) -> None:
        step = {
            "declare": python.kind,
            "name": name,
            "result": str(result),
            "deterministic": is_deterministic,
            "pandas": python.is_pandas,
        }
        if accumulator is not None:
            step["accumulator"] = str(accumulator)
        super().__init__(step)
        self.name = name
        self.python = python
        self._details = (result, accumulator, is_deterministic)

    def __call__(self, *arguments: Any) -> Expression:
        return Expression({"on": self, "name": "call"}, arguments)

    def alias(self, *names: str) -> Expression:
        """Return a call without arguments whose columns have these names, for ``flat_map`` and ``map``."""
        return Expression({"on": self, "name": "alias"}, names)

    def renamed(self, name: str) -> UserFunction:
        """Return the function under another name."""
        return self if name == self.name else UserFunction(name, self.python, *self._details)

    def taking_row(self) -> UserFunction:
        """Return the function that gets all its arguments as one row."""
        python = PythonFunction(self.python.kind, self.python.function, True, self.python.is_pandas)
        return UserFunction(self.name, python, *self._details)


def udf(
    f: Any = None,
    input_types: Any = None,
    result_type: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
) -> Any:
    """Make a function with one result of a callable or a ScalarFunction; also a decorator."""
    if f is None:
        return lambda given: udf(given, input_types, result_type, deterministic, name, func_type)
    python = PythonFunction(SCALAR, f, is_pandas=func_type == "pandas")
    return _made(f, python, DataType(logical_of(result_type)), None, deterministic, name)


def udtf(
    f: Any = None,
    input_types: Any = None,
    result_types: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
) -> Any:
    """Make a table function of a generator or a TableFunction; also a decorator."""
    if f is None:
        return lambda given: udtf(given, input_types, result_types, deterministic, name)
    return _made(f, PythonFunction(TABLE, f), _row_of(result_types), None, deterministic, name)


def udaf(
    f: Any = None,
    input_types: Any = None,
    result_type: Any = None,
    accumulator_type: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
) -> Any:
    """Make an aggregate function of an AggregateFunction; also a decorator."""
    return _aggregate(AGGREGATE, f, result_type, accumulator_type, deterministic, name, func_type)


def udtaf(
    f: Any = None,
    input_types: Any = None,
    result_type: Any = None,
    accumulator_type: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
) -> Any:
    """Make a table aggregate function of a TableAggregateFunction; also a decorator."""
    return _aggregate(TABLE_AGGREGATE, f, result_type, accumulator_type, deterministic, name, func_type)


def _aggregate(
    kind: str, f: Any, result: Any, accumulator: Any, deterministic: bool | None, name: str | None, form: str
) -> Any:
    if f is None:
        return lambda given: _aggregate(kind, given, result, accumulator, deterministic, name, form)
    if form == "pandas":
        name = name or getattr(f, "__name__", type(f).__name__)
        f, accumulator = VectorizedAggregate(f), "ARRAY<BYTES>"
    if result is None:
        result = f.get_result_type()
    if accumulator is None:
        accumulator = f.get_accumulator_type()
    kinds = DataType(logical_of(result)), DataType(logical_of(accumulator))
    return _made(f, PythonFunction(kind, f), *kinds, deterministic, name)


def _made(
    f: Any,
    python: PythonFunction,
    result: DataType,
    accumulator: DataType | None,
    deterministic: bool | None,
    name: str | None,
) -> UserFunction:
    found = name or getattr(f, "__name__", None) or type(f).__name__
    if deterministic is None:
        deterministic = f.is_deterministic() if isinstance(f, UserDefinedFunction) else True
    return UserFunction(found, python, result, accumulator, deterministic)


def _row_of(kinds: Any) -> DataType:
    """Return the ROW of the rows of a table function, from one type or several."""
    if isinstance(kinds, str) or not isinstance(kinds, Sequence):
        logical = logical_of(kinds)
        if logical.root == "ROW":
            return DataType(logical)
        kinds = [kinds]
    fields = ", ".join(f"f{place} {logical_of(each)}" for place, each in enumerate(kinds))
    return DataType(logical_of(f"ROW<{fields}>"))


Function = Callable[..., Any] | UserDefinedFunction | UserFunction
