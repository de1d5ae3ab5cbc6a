"""Mutants: planted bugs with an id, and how they are applied to the engine and undone.

The rules this module lives by:

- A mutant is a generator function that patches the engine, yields once, and undoes its patches; ``replaced``
  does both. Its code calls ``reached`` whenever it behaves differently from the original code: a mutant that
  was not reached proves nothing about the harness.
- There is no global list. The decorator returns a value, and ``mutants_of`` collects these values from a
  module; so one file has no effect on another.
- An id names one mutant of a file. Id and path identify it in other processes, to which patches cannot be
  sent.
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


SMALL_JOBS: Final = ("word_count", "page_views", "tickets")
"""Families with small jobs. A bug of the protocol shows there as well as anywhere, and their scenarios take a
tenth of the time."""


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
    """The file it was loaded from; None where the decorator has made it only now."""
    on_databases: bool = False
    """Whether its scenarios have their keyed state in databases, whose checkpoints are incremental."""
    families: tuple[str, ...] = ()
    """The built-in families whose jobs have what it breaks, or SMALL_JOBS; none named: nearly all have it.
    Or the addresses of families of its own."""
    unseen: str = ""
    """Why no scenario of a run shows it; such a hole of the harness is named in harness/docs/power.md."""

    @contextmanager
    def applied(self) -> Iterator[Reach]:
        """Patch the engine inside the ``with`` block; yields the counter of how often mutated code ran."""
        reach = Reach()
        try:
            context = self.patches(reach)
            entered = hasattr(context, "__enter__") and hasattr(context, "__exit__")
            if entered:
                context.__enter__()
        except Exception as error:
            text = " ".join(str(error).split())
            raise MutantError(
                f"mutant {self.id} cannot be applied: {type(error).__name__}: {text}"
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
    unseen: str = "",
) -> Callable[[Callable[[Reached], Any]], Mutant]:
    """Return a decorator that turns a function into a mutant.

    The function gets ``reached``, patches the engine, yields once and undoes the patch; a context manager may
    replace the generator.

    Args:
        id: a unique name, the issue if there is one.
        breaks: the guarantee that it breaks.
        summary: the bug in one sentence.
        origin: the issue; by default ``id`` if that is an issue, else "planted".
        on_databases: whether it needs incremental checkpoints of the rocksdb backend.
        families: the families whose jobs have the broken part; empty if nearly all have.
        unseen: why no scenario of a run shows it, a hole of the harness; empty if some do.
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
            unseen=unseen,
        )

    return decorate


def mutants_of(module: ModuleType) -> list[Mutant]:
    """Return the mutants that a module defines, in its order.

    Raises:
        MutantError: two of them have the same id.
    """
    found: dict[str, Mutant] = {}
    for value in vars(module).values():
        if isinstance(value, Mutant) and value.module == module.__name__:
            if value.id in found and found[value.id] is not value:
                raise MutantError(f"two mutants have the id {value.id!r}: an id names one")
            found[value.id] = value
    return list(found.values())
