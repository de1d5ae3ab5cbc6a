"""What an input or output of a program is made of in one trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from onceproof.harness.model.program_ends import Input, Output
from onceproof.harness.systems.process.job_specification import TrialObjects

End = TypeVar("End", Input, Output)


@dataclass(frozen=True, slots=True)
class TrialEnd(Generic[End]):
    """An input or output as the file describes it, with its place in a trial."""

    file: End
    place: str
    """In the file of the program, for errors."""
    here: Path
    """The folder of that file."""
    folder: Path
    """For files of its own; it is not there yet."""
    columns: Mapping[str, str]
    """Of a record or row, by name their types as Spark DDL has them; "": not known."""
    values: Mapping[str, str]
    """By placeholder, what it stands for in this trial; whole when all ends are made."""
    splits: tuple[str, ...] = ()
    """Those that an input carries."""
    server: str = ""
    """The address of its Kafka or PostgreSQL, past the proxy of the program."""
    topic: str = ""
    objects: TrialObjects | None = None
    """The part of the bucket that is its own."""
