"""The sinks of a query under test, with their events: each batch is committed by its number.

The rules this module lives by:

- Before the sink makes a batch visible, it logs the batch with the cut in its offset file. Afterwards it logs
  the new rows; then Spark commits the batch.
- The harness's own sink is exactly-once by the number of the batch: the writers' messages carry the rows to
  the driver, which publishes them once, in a file named after the batch.
- A user's sink is a function of a batch and its number, called by foreachBatch. The output folder is read
  before and after the call to find its effect.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import Row, StructType

from onceproof.harness.systems.commit_faults import answer, refuse
from onceproof.harness.systems.process.fault_board import FaultBoard
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.structured.kills import board_of
from onceproof.harness.systems.structured.output import TABLE, batch_ends, rows_in, visible_rows
from onceproof.harness.systems.structured.source import DRIVER_PROCESS, SPEC

Store: TypeAlias = Callable[[DataFrame, int], None]
"""A user's sink: a function of the rows of a batch and its number."""

ROWS: Final = "onceproof_rows"
TASK: Final = "sink"
PLANNED: Final = "batch_planned"
SHOWN: Final = "batch_shown"
WRITTEN: Final = "table_written"


@dataclass(frozen=True)
class Message(WriterCommitMessage):
    """The rows of one partition as lines of JSON, sent from a writer to the commit."""

    lines: tuple[bytes, ...]


class RowSink(DataSource):
    """The data sink. Its options are the job's specification and the process id of the driver."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return ROWS

    def streamWriter(self, schema: StructType, overwrite: bool) -> RowWriter:  # noqa: N802 (the name is Spark's)
        return RowWriter(self.options[SPEC], int(self.options[DRIVER_PROCESS]))


class RowWriter(DataSourceStreamWriter):
    """Writes rows in workers, and commits them for the driver. Spark ships it to both processes."""

    def __init__(self, path: str, driver: int) -> None:
        self._path = path
        self._driver = driver

    def write(self, iterator: Iterator[Row]) -> Message:
        """Return the rows of one partition as a message for the commit."""
        lines = tuple([msgspec.json.encode(tuple(row)) for row in iterator])
        _, board = board_of(self._path, self._driver)
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        board("pre_committed", f"{TASK}-{partition}", 0)
        return Message(lines)

    def commit(self, messages: Sequence[Any], batchId: int) -> None:  # noqa: N803
        """Publish the rows of a batch, unless they are already published."""
        spec, board = board_of(self._path, self._driver)
        lines = [line for message in messages if message is not None for line in message.lines]
        commit(spec, board, batchId, lambda: publish(Path(spec.output), batchId, lines))

    def abort(self, messages: Sequence[Any], batchId: int) -> None:  # noqa: N803
        """Do nothing: no row is visible before the commit."""


def commit(spec: Spec, board: FaultBoard, batch: int, act: Callable[[], object], keys: int = 0) -> None:
    """Make a batch visible with ``act``, inject its planned faults, and log which visible rows changed.

    Args:
        keys: the number of columns by which ``act`` replaces rows; 0: it only adds rows.

    Raises:
        InjectedError: a fault refuses the commit, or lets it time out after it is done.
    """
    output = Path(spec.output)
    checkpoint = batch + 1
    board.log.write(PLANNED, batch=batch, cut=batch_ends(Path(spec.checkpoints)).get(batch))
    fault = board.commit_fault(TASK, checkpoint)
    refuse(fault, f"commit of batch {batch} was refused", lambda: None)
    board("committing", TASK, checkpoint)
    before = visible_rows(output)
    act()
    after = visible_rows(output)
    if keys:
        shown = {row[:keys] for row in after}
        gone = [row for row in before if row[:keys] not in shown]
        board.log.write(WRITTEN, batch=batch, rows=list((after - before).elements()), gone=gone)
    else:
        new, gone = list((after - before).elements()), list((before - after).elements())
        board.log.write(SHOWN, batch=batch, new=new, gone=gone)
    answer(fault, f"commit of batch {batch} timed out", lambda: None)
    board("committed", TASK, checkpoint)


def storing(spec: Spec, board: FaultBoard, store: Store, keys: int) -> Store:
    """Return the function that foreachBatch calls: the user's sink, with logs and faults."""

    def stored(rows: DataFrame, batch: int) -> None:
        commit(spec, board, batch, lambda: store(rows, batch), keys)

    return stored


def publish(output: Path, batch: int, lines: Iterable[bytes]) -> None:
    """Make the rows of a batch visible atomically, at most once."""
    hidden, visible = output / f".batch-{batch}.jsonl", output / f"batch-{batch}.jsonl"
    if visible.exists():
        return
    hidden.write_bytes(b"".join(line + b"\n" for line in lines))
    os.replace(hidden, visible)


def published_before(output: Path, batch: int) -> list[tuple[Any, ...]]:
    """Return the rows of the batches before one."""
    files = [output / f"batch-{number}.jsonl" for number in range(batch)]
    return rows_in([file for file in files if file.exists()])


def upsert(output: Path, rows: Iterable[Sequence[Any]], keys: int) -> None:
    """Upsert rows by their first ``keys`` columns into a table file, which is replaced atomically."""
    hidden, visible = output / f".{TABLE}", output / TABLE
    table = {row[:keys]: row for row in rows_in([visible] if visible.exists() else [])}
    table.update({tuple(row)[:keys]: tuple(row) for row in rows})
    hidden.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in table.values()))
    os.replace(hidden, visible)
