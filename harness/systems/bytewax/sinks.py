"""The sinks of flows under trial: Bytewax's own sink of files, and one whose rows wait for the store.

The rules this module lives by:

- A sink has a fixed number of partitions, whatever the number of workers. Each logs what it shows after it is
  shown, and what it takes away before it is taken away.
- ``DirSink`` of Bytewax shows rows as they come, and cuts its files back to the snapshot when it goes on.
- ``EpochSink`` writes the rows of an epoch into a hidden file, which its snapshot closes and lists. The file
  is shown when a row of a later epoch comes: Bytewax begins an epoch once the one before it is in the store.
  Bytewax tells no sink of that. What is left is shown when the flow is over, and when it is started again.
- A sink that goes on from a snapshot shows what that lists, and deletes the files that it does not know.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from bytewax.connectors.files import DirSink
from bytewax.outputs import FixedPartitionedSink, StatefulSinkPartition

from onceproof.harness.model.history import Row
from onceproof.harness.systems.bytewax.output import epoch_file, part_name, rows_in
from onceproof.harness.systems.commit_faults import answer, refuse
from onceproof.harness.systems.process.fault_board import FaultBoard
from onceproof.harness.systems.process.job_specification import HIDDEN

ROWS_SHOWN: Final = "rows_shown"
ROWS_CUT: Final = "rows_cut"
PART_SNAPSHOT: Final = "part_snapshot"


class Showing:
    """Shows the rows of a partition, with the planned faults and with a log."""

    def __init__(self, board: FaultBoard, part: str) -> None:
        self._board = board
        self._part = part
        self._shown = 0
        self._listed: list[str] = []

    def show(self, name: str, number: int, rows: Sequence[Row], act: Callable[[], object]) -> None:
        """Make rows visible by ``act``, as the transaction ``name``; those of a partition are numbered.

        Raises InjectedError where a fault refuses it, or lets it time out after it is done.
        """
        board, part = self._board, self._part
        fault = board.commit_fault(part)
        refuse(fault, f"rows of {name} were refused", lambda: None)
        board("committing", part, 0)
        act()
        board.log.write(ROWS_SHOWN, part=part, name=name, number=number, rows=rows)
        answer(fault, f"rows of {name} timed out", lambda: None)
        board("committed", part, 0)

    def show_at_once(self, rows: Sequence[Row], act: Callable[[], object]) -> None:
        """Make rows visible that no snapshot lists yet; the next one will."""
        self._shown += 1
        name = f"{self._part} {os.getpid()}.{self._shown}"
        self._listed.append(name)
        self.show(name, self._shown, rows, act)

    def snapshot_taken(self, listed: Sequence[str] = ()) -> None:
        """Log which transactions a snapshot lists that the one before it did not."""
        self._board.log.write(PART_SNAPSHOT, part=self._part, listed=[*self._listed, *listed])
        self._listed.clear()
        self._board("snapshotted", self._part, 0)

    def cut(self, file: str, rows: Sequence[Row]) -> None:
        """Log that visible rows of a file are about to be taken away."""
        if rows:
            self._board.log.write(ROWS_CUT, file=file, rows=rows)


class ShownPart(StatefulSinkPartition):  # type: ignore[misc]
    """A partition of Bytewax's own sink of files, as it is, with the log around it."""

    def __init__(self, inner: Any, showing: Showing) -> None:
        self._inner = inner
        self._showing = showing

    def write_batch(self, values: list[str]) -> None:
        """Append lines; they are visible."""
        rows = [msgspec.json.decode(line) for line in values]
        self._showing.show_at_once(rows, lambda: self._inner.write_batch(values))

    def snapshot(self) -> Any:
        """Return the length of the file."""
        state = self._inner.snapshot()
        self._showing.snapshot_taken()
        return state

    def close(self) -> None:
        """Close the file."""
        self._inner.close()


class ShownFiles(DirSink):  # type: ignore[misc]
    """Bytewax's own sink of files."""

    def __init__(self, output: Path, parts: int, board: FaultBoard) -> None:
        super().__init__(output, parts, lambda index, _count: part_name(index))
        self._output = output
        self._board = board

    def build_part(self, step_id: str, for_part: str, resume_state: Any) -> ShownPart:
        """Return a partition; Bytewax cuts its file back to the length in the snapshot."""
        showing = Showing(self._board, for_part)
        showing.cut(for_part, rows_in(self._output / for_part, int(resume_state or 0)))
        return ShownPart(super().build_part(step_id, for_part, resume_state), showing)

    def finish(self) -> None:
        """Do nothing: all rows are visible."""


class EpochPart(StatefulSinkPartition):  # type: ignore[misc]
    """A partition whose rows wait in a hidden file until their epoch is in the recovery store.

    Its state is the number of the next file, and that of the first one that may be hidden.
    """

    def __init__(self, output: Path, part: str, showing: Showing, state: tuple[int, int]) -> None:
        self._output = output
        self._part = part
        self._showing = showing
        self._next, self._hidden_from = state
        self._rows: list[Row] = []
        self._is_in_store = True
        self._delete_unlisted()
        self.show_listed()

    def write_batch(self, values: list[str]) -> None:
        """Append lines to the hidden file of this epoch; show those of the epochs before it."""
        if self._is_in_store:
            self._is_in_store = False
            self.show_listed()
        with self._path(self._next, HIDDEN).open("a") as file:
            file.writelines(f"{line}\n" for line in values)
            file.flush()
            os.fsync(file.fileno())
        self._rows += [msgspec.json.decode(line) for line in values]

    def snapshot(self) -> tuple[int, int]:
        """Close the file of this epoch, and list it."""
        listed = []
        if self._rows:
            listed.append(self._path(self._next, "").name)
            self._rows = []
            self._next += 1
        # A row of a later epoch comes only after this state is in the store.
        self._is_in_store = True
        self._showing.snapshot_taken(listed)
        return self._next, self._hidden_from

    def show_listed(self) -> None:
        """Show the files that are listed and hidden."""
        while self._hidden_from < self._next:
            hidden, visible = self._path(self._hidden_from, HIDDEN), self._path(self._hidden_from, "")
            if hidden.exists():
                act = partial(os.replace, hidden, visible)
                self._showing.show(visible.name, self._hidden_from, rows_in(hidden), act)
            self._hidden_from += 1

    def _delete_unlisted(self) -> None:
        """Delete what was written behind the snapshot: it is written again."""
        number = self._next
        while True:
            paths = [self._path(number, prefix) for prefix in ("", HIDDEN)]
            found = [path for path in paths if path.exists()]
            if not found:
                return
            for path in found:
                if not path.name.startswith(HIDDEN):
                    self._showing.cut(path.name, rows_in(path))
                path.unlink()
            number += 1

    def _path(self, number: int, prefix: str) -> Path:
        return self._output / f"{prefix}{epoch_file(self._part, number)}"


class EpochSink(FixedPartitionedSink):  # type: ignore[misc]
    """Shows the rows of an epoch once it is in the recovery store."""

    def __init__(self, output: Path, parts: int, board: FaultBoard) -> None:
        self._output = output
        self._parts = parts
        self._board = board
        self._built: list[EpochPart] = []

    def list_parts(self) -> list[str]:
        """Return the names of the partitions."""
        return [part_name(index) for index in range(self._parts)]

    def build_part(self, step_id: str, for_part: str, resume_state: Any) -> EpochPart:
        """Return a partition that goes on from its snapshot."""
        first, hidden_from = (1, 1) if resume_state is None else resume_state
        part = EpochPart(self._output, for_part, Showing(self._board, for_part), (first, hidden_from))
        self._built.append(part)
        return part

    def finish(self) -> None:
        """Show the last rows: the flow is over, and its last epoch in the store."""
        for part in self._built:
            part.show_listed()
