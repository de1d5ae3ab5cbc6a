"""What feeds a program on trial by files or its standard input; other inputs stand beside this module.

The rules this module lives by:

- The input outlives the program. A program that starts again finds files, topics and tables as they were, and
  reads a socket or its standard input from the beginning: what it has done already it must know itself.
- A record is given when all of its line can be read.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, Any, Final

from onceproof.harness.model.program_ends import Input
from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.systems.program.line_formats import SUFFIXES, values_of
from onceproof.harness.systems.program.message_formats import encoder_of
from onceproof.harness.systems.program.trial_end import TrialEnd

_SECONDS_BETWEEN_TRIES: Final = 0.02


class ProgramInput(ABC):
    """An input of one trial."""

    address: str
    """What ``{input}`` stands for."""
    port: int = 0
    """What ``{port}`` stands for, of an input that has one."""
    takes_stdin: bool = False
    """Whether it writes to the standard input of the program."""

    def __init__(self, end: TrialEnd[Input]) -> None:
        self._end = end
        self._encode = encoder_of(end.file, end.columns, end.here, end.place)

    def fields(self, record: InputRecord) -> dict[str, Any]:
        """Return the fields of a record by name."""
        return values_of(record, self._end.columns, self._end.file.timestamp)

    def message(self, record: InputRecord) -> bytes:
        """Return a record in the format of the input."""
        return self._encode(self.fields(record))

    def line(self, record: InputRecord) -> bytes:
        """Return a record as a line with its end."""
        return self.message(record) + b"\n"

    @abstractmethod
    def give(self, split: str, record: InputRecord) -> None:
        """Give the next record of a split."""

    def all_given(self) -> None:
        """Called when no record follows."""

    def started(self, stdin: IO[bytes]) -> None:
        """Called with the standard input of each start of the program."""

    def close(self) -> None:
        """Free what it holds."""


class AllInputs:
    """The inputs of one trial, each with its splits."""

    def __init__(self, inputs: Sequence[ProgramInput], splits: Sequence[Sequence[str]]) -> None:
        self._inputs = inputs
        self._by_split = {split: each for each, own in zip(inputs, splits, strict=True) for split in own}

    def give(self, split: str, record: InputRecord) -> None:
        """Give the next record of a split."""
        self._by_split[split].give(split, record)

    def all_given(self) -> None:
        """Called when no record follows."""
        for each in self._inputs:
            each.all_given()

    def started(self, stdin: IO[bytes]) -> None:
        """Called with the standard input of each start of the program."""
        for each in self._inputs:
            each.started(stdin)
        if not any(each.takes_stdin for each in self._inputs):
            with suppress(OSError):
                stdin.close()


class InputFiles(ProgramInput):
    """A file for each split, to which lines are appended."""

    def __init__(self, end: TrialEnd[Input]) -> None:
        super().__init__(end)
        end.folder.mkdir()
        self.address = str(end.folder)
        # Each file is there from the beginning: a program may look for its input once.
        self._files = {
            split: (end.folder / f"{split}{SUFFIXES[end.file.format]}").open("ab", buffering=0)
            for split in end.splits
        }

    def give(self, split: str, record: InputRecord) -> None:
        self._files[split].write(self.line(record))

    def close(self) -> None:
        for file in self._files.values():
            file.close()


class InputBatches(ProgramInput):
    """Files or objects of a few records each, which appear at once and never change."""

    def __init__(self, end: TrialEnd[Input]) -> None:
        super().__init__(end)
        self._lines: dict[str, list[bytes]] = {split: [] for split in end.splits}
        self._batches = 0

    @abstractmethod
    def put(self, name: str, content: bytes) -> None:
        """Let a file or an object of that name appear."""

    def give(self, split: str, record: InputRecord) -> None:
        self._lines[split].append(self.line(record))
        if len(self._lines[split]) == self._end.file.records:
            self._put_lines(split)

    def all_given(self) -> None:
        for split in self._lines:
            self._put_lines(split)

    def _put_lines(self, split: str) -> None:
        lines, self._lines[split] = self._lines[split], []
        if lines:
            self._batches += 1
            self.put(f"{split}-{self._batches:06}{SUFFIXES[self._end.file.format]}", b"".join(lines))


class NewFiles(InputBatches):
    """Files that appear in a folder by their renaming."""

    def __init__(self, end: TrialEnd[Input]) -> None:
        super().__init__(end)
        end.folder.mkdir()
        self.address = str(end.folder)

    def put(self, name: str, content: bytes) -> None:
        hidden = self._end.folder / f".{name}"
        hidden.write_bytes(content)
        hidden.rename(self._end.folder / name)


class InputStream(ProgramInput):
    """Lines for readers that begin at the first line whenever they come; the splits take turns."""

    def __init__(self, end: TrialEnd[Input]) -> None:
        super().__init__(end)
        self._lines: list[bytes] = []
        self._is_whole = False
        self._is_closed = False
        self._changed = threading.Condition()

    def give(self, split: str, record: InputRecord) -> None:
        with self._changed:
            self._lines.append(self.line(record))
            self._changed.notify_all()

    def all_given(self) -> None:
        with self._changed:
            self._is_whole = True
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def send(self, write: Callable[[bytes], object], close: Callable[[], object]) -> None:
        """Write all lines, in a thread of its own, as they are given; then close."""
        threading.Thread(target=self._send, args=(write, close), daemon=True).start()

    def _send(self, write: Callable[[bytes], object], close: Callable[[], object]) -> None:
        number = 0
        # A reader that dies is no reason to end.
        with suppress(OSError, ValueError):
            while True:
                with self._changed:
                    while number == len(self._lines) and not self._is_whole and not self._is_closed:
                        self._changed.wait()
                    if number == len(self._lines) or self._is_closed:
                        break
                    line = self._lines[number]
                number += 1
                write(line)
        with suppress(OSError, ValueError):
            close()


class StandardInput(InputStream):
    """The standard input of each start of the program."""

    address = "-"
    takes_stdin = True

    def started(self, stdin: IO[bytes]) -> None:
        def write(line: bytes) -> None:
            stdin.write(line)
            stdin.flush()

        self.send(write, stdin.close)


class NotTaken(Exception):
    """The other side has not taken a record, and may take it later."""


class DeliveredInput(ProgramInput):
    """Records that a thread delivers in order, each again and again until the other side has taken it."""

    def __init__(self, end: TrialEnd[Input]) -> None:
        super().__init__(end)
        self._waiting: list[tuple[str, InputRecord]] = []
        self._is_closed = False
        self._failure: Exception | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._deliver_all, daemon=True)
        self._thread.start()

    @abstractmethod
    def deliver(self, number: int, split: str, record: InputRecord) -> None:
        """Deliver a record, the n-th of all. Raises NotTaken; FamilyError if it never can be."""

    def give(self, split: str, record: InputRecord) -> None:
        with self._changed:
            self._waiting.append((split, record))
            self._changed.notify_all()
        self.all_given()

    def all_given(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()
        self.all_given()

    def _deliver_all(self) -> None:
        number = 0
        while True:
            with self._changed:
                while number == len(self._waiting) and not self._is_closed:
                    self._changed.wait()
                if self._is_closed:
                    return
                split, record = self._waiting[number]
            try:
                self.deliver(number, split, record)
                number += 1
            except NotTaken:
                with self._changed:
                    self._changed.wait_for(lambda: self._is_closed, _SECONDS_BETWEEN_TRIES)
            except Exception as error:
                # It is raised again where the trial can end with it.
                self._failure = error
                return
