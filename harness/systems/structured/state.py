"""Keyed state in a query, with the three stateful APIs of PySpark around one plain function.

The rules this module lives by:

- The function is a ``Step``: it maps the state of a key and one record to the new state and a row. A family
  writes it without importing Spark, and each of the three APIs calls it for the same records.
- Within a batch the records of a key are sorted by split and offset, because Spark guarantees no order.
- State and rows are tuples, with the columns of their Spark schemas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import Row, StructType

State: TypeAlias = tuple[Any, ...]


class Step(Protocol):
    """The function that a family applies to each record of a key."""

    def __call__(self, state: State | None, record: Any, /) -> tuple[State, tuple[Any, ...]]:
        """Return the new state and the row; ``record`` has the columns of the source as attributes."""


@dataclass(frozen=True)
class Keyed:
    """A step with its schemas, shared by the three APIs."""

    step: Step
    state_schema: str
    columns: tuple[str, ...]

    def rows(self, state: State | None, records: Iterable[Any]) -> tuple[State | None, list[tuple[Any, ...]]]:
        """Apply the step to the records of a key; return the last state and the rows."""
        rows = []
        for record in sorted(records, key=_place):
            state, row = self.step(state, record)
            rows.append(row)
        return state, rows


def _place(record: Any) -> tuple[str, int]:
    return record.split, record.offset


class _Processor(StatefulProcessor):
    """Base class of the processors: keeps the state of the step."""

    def __init__(self, keyed: Keyed) -> None:
        self._keyed = keyed

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Register the state with Spark."""
        self._state = handle.getValueState("state", self._keyed.state_schema)

    def take(self, records: Iterable[Any]) -> list[tuple[Any, ...]]:
        """Apply the step to the records of a key in one batch, and return the rows."""
        state, rows = self._keyed.rows(self._state.get(), records)
        if state is not None:
            self._state.update(_plain(state))
        return rows

    def close(self) -> None:
        """Do nothing: the processor holds no resources."""


class RowProcessor(_Processor):
    """Calls the step from transformWithState."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Yield the rows for the records of a key in one batch."""
        for row in self.take(rows):
            yield Row(**dict(zip(self._keyed.columns, row, strict=True)))


class PandasProcessor(_Processor):
    """Calls the step from transformWithStateInPandas."""

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Any,
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Yield the rows for the records of a key in one batch, as a data frame."""
        yield _frame(self.take(_records(rows)), self._keyed.columns)


def _records(frames: Iterable[pd.DataFrame]) -> Iterator[Any]:
    for frame in frames:
        yield from frame.itertuples(index=False, name="Record")


def _frame(rows: Sequence[tuple[Any, ...]], columns: tuple[str, ...]) -> pd.DataFrame:
    return pd.DataFrame([_plain(row) for row in rows], columns=list(columns))


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row with plain Python values instead of numpy's."""
    return tuple([value.item() if hasattr(value, "item") else value for value in row])


def transform_with_state(
    records: DataFrame, keys: Sequence[str], step: Step, state: str, rows: str
) -> DataFrame:
    """Return the rows of the step, called by transformWithState.

    ``keys`` are columns of ``records``; ``state`` and ``rows`` are schemas as DDL text.
    """
    keyed = Keyed(step, state, _columns(rows))
    return records.groupBy(*keys).transformWithState(RowProcessor(keyed), rows, "Append", "None")


def transform_with_state_in_pandas(
    records: DataFrame, keys: Sequence[str], step: Step, state: str, rows: str
) -> DataFrame:
    """Return the rows of the step, called by transformWithStateInPandas; see ``transform_with_state``."""
    keyed = Keyed(step, state, _columns(rows))
    return records.groupBy(*keys).transformWithStateInPandas(PandasProcessor(keyed), rows, "Append", "None")


def apply_in_pandas_with_state(
    records: DataFrame, keys: Sequence[str], step: Step, state: str, rows: str
) -> DataFrame:
    """Return the rows of the step, called by applyInPandasWithState; see ``transform_with_state``."""
    keyed = Keyed(step, state, _columns(rows))

    def apply(key: Any, frames: Iterable[pd.DataFrame], group: GroupState) -> Iterator[pd.DataFrame]:
        after, made = keyed.rows(group.get if group.exists else None, _records(frames))
        if after is not None:
            group.update(_plain(after))
        yield _frame(made, keyed.columns)

    return records.groupBy(*keys).applyInPandasWithState(apply, rows, state, "append", "NoTimeout")


def _columns(schema: str) -> tuple[str, ...]:
    parsed = StructType.fromDDL(schema)
    assert isinstance(parsed, StructType)
    return tuple(parsed.names)
