"""What a mutant is: a planted bug with a name, and how it is put into the engine and taken out again.

The rules this module lives by:

- A mutant is a generator function that patches the engine, yields once, and undoes its patches; ``replaced``
  does both. While it is applied it calls ``reached`` whenever the mutated code decides otherwise than the
  sound code would: a mutant that was not reached says nothing about the harness.
- There is no list to enter it into. The decorator makes a value of the function; whoever wants the mutants of
  a module takes these values from it. So a file of somebody's own has no effect on ours.
- An id names one mutant of a file. With the file's path it names it everywhere, also in another process, to
  which a patch cannot be sent.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final, TypeAlias

Reached: TypeAlias = Callable[[], None]
Patches: TypeAlias = Callable[[Reached], AbstractContextManager[Any]]

PLANTED: Final = "planted"
_ISSUE: Final = re.compile(r"[A-Z][A-Z0-9]*-\d+")


class MutantError(Exception):
    """A mutant that cannot be loaded or applied; the message is one line."""


class Reach:
    """Counts how often mutated code ran."""

    __slots__ = ("times",)

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


@dataclass(frozen=True, slots=True)
class Mutant:
    """A planted bug."""

    id: str
    origin: str
    """The issue in whose history it stands, or "planted"."""
    breaks: str
    """The guarantee that it breaks."""
    summary: str
    patches: Patches = field(repr=False)
    module: str
    path: str | None = None
    """The file it was loaded from; None for a built-in one."""
    on_databases: bool = False
    """Whether its scenarios have their keyed state in databases, whose checkpoints are incremental."""
    families: tuple[str, ...] = ()
    """The built-in families whose jobs have what it breaks; none named: nearly all have."""

    @contextmanager
    def applied(self) -> Iterator[Reach]:
        """Put the bug into the engine for as long as the context lasts; gives the count of its reach."""
        reach = Reach()
        try:
            context = self.patches(reach)
            entered = hasattr(context, "__enter__") and hasattr(context, "__exit__")
            if entered:
                context.__enter__()
        except Exception as error:
            said = " ".join(str(error).split())
            raise MutantError(
                f"mutant {self.id} cannot be applied: {type(error).__name__}: {said}"
            ) from error
        if not entered:
            raise MutantError(f"mutant {self.id} must be a generator that yields once, or a context manager")
        try:
            yield reach
        finally:
            try:
                context.__exit__(None, None, None)
            except Exception as error:
                raise MutantError(f"mutant {self.id} cannot be undone: {error}") from error


def mutant(
    *,
    id: str,
    breaks: str,
    summary: str,
    origin: str | None = None,
    on_databases: bool = False,
    families: tuple[str, ...] = (),
) -> Callable[[Callable[[Reached], Any]], Mutant]:
    """Make a mutant of a function that gets ``reached``, patches the engine, yields once and undoes it.

    A context manager instead of a generator will do as well. ``origin`` is by default the issue that ``id``
    names, if it names one. ``on_databases``: it is a bug of incremental checkpoints of databases.
    ``families``: no job but theirs has what it breaks, such as a sink of its kind.
    """
    for name, value in (("id", id), ("breaks", breaks), ("summary", summary)):
        if not value.strip():
            raise MutantError(f"a mutant needs {name!r}, a text that is not empty")
    if origin is None:
        origin = id if _ISSUE.fullmatch(id) else PLANTED

    def decorate(function: Callable[[Reached], Any]) -> Mutant:
        patches = contextmanager(function) if inspect.isgeneratorfunction(function) else function
        return Mutant(
            id,
            origin,
            breaks,
            summary,
            patches,
            function.__module__,
            on_databases=on_databases,
            families=families,
        )

    return decorate


def mutants_of(module: ModuleType) -> list[Mutant]:
    """Return the mutants that a module defines, in its order; MutantError where two share an id."""
    found: dict[str, Mutant] = {}
    for value in vars(module).values():
        if isinstance(value, Mutant) and value.module == module.__name__:
            if value.id in found and found[value.id] is not value:
                raise MutantError(f"two mutants have the id {value.id!r}: an id names one")
            found[value.id] = value
    return list(found.values())
