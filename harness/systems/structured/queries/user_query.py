"""A user's file with a query: it runs as spark-submit runs it, up to the query on trial.

Rules:

- A program starts a query; ``start()`` hands it over and ends the file. A module has a function that takes
  DataFrames and returns one; the names of its parameters are those of its sources.
- Each attempt of a query runs the file anew, with the modules beside it, as each process would. It runs as
  ``__main__``, so Spark ships its functions by value.
- The working directory is one of the trial. What the file prints goes to the log of the driver.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.family_places import Said, is_query, said_of, split_address
from onceproof.harness.model.user_file import error_line, modules_in
from onceproof.harness.systems.structured.queries.replaced_ends import Asked, replaced_ends
from onceproof.harness.systems.structured.sinks import Store

Read = Callable[[str, Asked], DataFrame]
"""Returns the records of a source, by its name."""


class FoundQuery(NamedTuple):
    """The query of a file: its rows, and what it asks of its sink."""

    rows: DataFrame
    asked: Asked


ANY_MODE: Final = "any"
"""The output mode of a function: the first one that Spark takes."""


class _Shortened(FamilyError):
    """An error of Spark, with its type in the message."""


class _Started(BaseException):
    """The query on trial has started: the file ends."""


class _NotRun:
    """A query that is not on trial: it has ended, and has read nothing."""

    id = runId = name = None  # noqa: N815 (the names are Spark's)
    isActive = False  # noqa: N815
    lastProgress = exception = None  # noqa: N815

    def awaitTermination(self, timeout: Any = None) -> bool:  # noqa: N802
        return True

    def stop(self) -> None:
        """Do nothing."""

    processAllAvailable = stop  # noqa: N815


class UserQuery:
    """A file, and what its address says of it."""

    def __init__(self, path: Path, said: Said, session: SparkSession) -> None:
        self.path, self.said = path, said
        self._session = session

    def sample(self, source: str) -> Path | None:
        """Return the file with the records of a source, if the user has given one."""
        return self.said.samples.get(source)

    def find(self, read: Read, folder: Path) -> FoundQuery:
        """Run the file in a folder, up to its query over the records that ``read`` returns.

        Raises FamilyError.
        """
        found: list[FoundQuery] = []
        others: list[str] = []
        names: dict[str, int] = {}

        def read_named(asked: Asked) -> DataFrame:
            name = _source_name(asked)
            names[name] = names.get(name, 0) + 1
            return read(name if names[name] == 1 else f"{name}-{names[name]}", asked)

        def begin(rows: DataFrame, asked: Asked) -> _NotRun:
            if self.said.job not in ("", asked.name):
                others.append(asked.name)
                return _NotRun()
            found.append(FoundQuery(rows, asked))
            raise _Started

        module = ModuleType("__main__")
        module.__file__ = str(self.path)
        with self.at_home(folder), replaced_ends(self._session, read_named, begin):
            try:
                exec(compile(self.path.read_bytes(), str(self.path), "exec"), vars(module))
                if not found:
                    function = self._function(module, others)
                    arguments = [read(name, Asked(name=name)) for name in _parameters(function)]
                    found.append(FoundQuery(function(*arguments), Asked(mode=ANY_MODE)))
            except _Started:
                pass
            except FamilyError:
                raise
            except SystemExit as error:
                raise FamilyError(
                    f"{self.path}: the program ends with exit code {error.code} before it starts a query; its"
                    f" own arguments follow --, as in: onceproof run {self.path} -- --input FILE"
                ) from None
            except Exception as error:
                raise FamilyError(error_line(self.path, _shortened(error), FamilyError)) from error
        if not isinstance(found[0].rows, DataFrame):
            raise FamilyError(f"{self.path}: its function returns no DataFrame")
        self._ship_modules_beside()
        return found[0]

    @contextmanager
    def at_home(self, folder: Path) -> Iterator[None]:
        """Run code of the file: in a folder of the trial, with its arguments and the modules beside it."""
        folder.mkdir(parents=True, exist_ok=True)
        arguments, current = sys.argv, os.getcwd()
        beside = str(self.path.parent)
        if beside not in sys.path:
            sys.path.append(beside)
        sys.argv = [str(self.path), *self.said.arguments]
        for name in self._modules_beside():
            del sys.modules[name]
        os.chdir(folder)
        try:
            yield
        finally:
            sys.argv = arguments
            os.chdir(current)

    def storing(self, store: Store, folder: Path) -> Store:
        """Return a function of foreachBatch that runs in a folder, with the ends of the trial."""

        def stored(rows: DataFrame, batch: int) -> None:
            current = os.getcwd()
            folder.mkdir(parents=True, exist_ok=True)
            os.chdir(folder)
            try:
                with replaced_ends(rows.sparkSession, _no_stream, _no_stream):
                    store(rows, batch)
            finally:
                os.chdir(current)

        return stored

    def _function(self, module: ModuleType, others: list[str]) -> Callable[..., Any]:
        """Return the function of a module without a started query. Raises FamilyError."""
        functions = {
            name: value
            for name, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == "__main__" and not name.startswith("_")
        }
        typed = {name: value for name, value in functions.items() if "DataFrame" in _annotations(value)}
        if self.said.job:
            typed = {name: value for name, value in functions.items() if name == self.said.job}
        chosen = typed or functions
        if len(chosen) != 1 or (self.said.job and not typed) or others:
            there = ", ".join([*functions, *[repr(name) for name in others]]) or "none"
            raise FamilyError(
                f"{self.path}: which query is on trial? A program calls start(), a module has one function"
                f" from DataFrames to a DataFrame; give one with --job NAME; there are: {there}"
            )
        return chosen.popitem()[1]

    def _modules_beside(self) -> list[str]:
        return modules_in((self.path.parent,))

    def _ship_modules_beside(self) -> None:
        """Let Spark pickle the modules beside the file by value: workers cannot import them."""
        for name in self._modules_beside():
            cloudpickle.register_pickle_by_value(sys.modules[name])


def user_query(address: str, session: SparkSession) -> UserQuery | None:
    """Return the query at an address; None if it is that of a family."""
    path, said = split_address(address)
    if path is None or not is_query(path):
        return None
    return UserQuery(path.absolute(), said_of(path, said), session)


def _no_stream(*values: Any) -> Any:
    raise FamilyError("a function of foreachBatch starts no query of its own on trial")


def _source_name(asked: Asked) -> str:
    """Return the name of a source: given, or that of its topic, folder, table or format."""
    topic = asked.options.get("subscribe") or asked.options.get("subscribepattern")
    place = asked.name or topic or Path(asked.path.split("*")[0]).stem or asked.format or "records"
    return "".join([each if each.isalnum() or each in "-_" else "-" for each in place])


def _parameters(function: Callable[..., Any]) -> list[str]:
    return [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]


def _annotations(function: Callable[..., Any]) -> str:
    return " ".join(map(str, inspect.get_annotations(function).values()))


def _shortened(error: Exception) -> Exception:
    """Return an error of Spark without the plan that follows its first line."""
    lines = str(error).strip().splitlines()
    if len(lines) < 2:
        return error
    return _Shortened(f"{type(error).__name__}: {lines[0].rstrip(';')}").with_traceback(error.__traceback__)
