"""A script: a user's Python file that describes a job and executes it, unedited.

Rules:

- A script runs as Python runs it: at module level, or below ``if __name__ == "__main__"``, with its
  arguments. ``execute()`` hands the description of the job over, and ends the script.
- Each attempt of a job runs the script anew, as each process would. So nothing lives on in globals,
  attributes of classes or modules beside the script.
- Its classes belong to a module with a name of its own. Those of values (dataclasses, named tuples, enums)
  are made once: what one attempt has pickled, the next one reads.
- What it prints and logs is dropped, and it does not sleep: a scenario runs it many times.
"""

from __future__ import annotations

import ast
import io
import logging
import os
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from copy import copy, deepcopy
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final, NamedTuple

from onceproof.engine.api.job_client import CompletableFuture, JobClient, JobStatus
from onceproof.engine.api.job_description import JobDescription
from onceproof.engine.api.submission import submitted
from onceproof.engine.configuration import Configuration
from onceproof.engine.runtime.job_result import JobExecutionResult
from onceproof.engine.table.connectors.registry import standing_in
from onceproof.harness.model.family import FamilyError, nearest
from onceproof.harness.model.user_file import error_line, modules_in
from onceproof.harness.scripts.outside import printed
from onceproof.harness.scripts.pyflink_imports import answer_imports
from onceproof.harness.scripts.sql.program_plans import planning
from onceproof.harness.scripts.sql.tables_on_trial import TrialTables

MODULE: Final = "onceproof_script_"
"""Prefix of the names of the modules in which scripts run."""
_KEEP: Final = "_onceproof_kept"
"""The decorator that a script's classes get."""
_OVER_THE_SCRIPT: Final = Configuration.from_mapping(
    {"parallelism.default": 1, "pipeline.max-parallelism": 128}
)
"""Options that a scenario decides: what the environment of a script says of them does not count."""


class DescribedJob(NamedTuple):
    """A job that a script was about to run."""

    name: str
    description: JobDescription


class _Taken(BaseException):
    """The job is described: the script ends."""


class _NotRun(JobClient):
    """The client of a job that is not on trial: it has finished, and has read nothing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def get_job_id(self) -> str:
        return ""

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        return _done(JobStatus.FINISHED)

    def cancel(self) -> CompletableFuture[None]:
        return _done(None)

    def cancel_with_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        return _done("")

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        return _done("")

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        return _done("")

    def get_job_execution_result(self) -> CompletableFuture[Any]:
        return _done(JobExecutionResult("", self._name, 0, 0, 0, 0))


def _done(value: Any) -> CompletableFuture[Any]:
    future: CompletableFuture[Any] = CompletableFuture()
    future.set_result(value)
    return future


class Script:
    """A file, the arguments that it gets, and which of its jobs is on trial; "": the first one.

    Args:
        module_name: that of an earlier version, whose pickled values name its classes; "": from its file.
    """

    def __init__(
        self, path: Path, arguments: Sequence[str] = (), job: str = "", module_name: str = ""
    ) -> None:
        self.path = path
        self._arguments = arguments
        self._job = job
        self.module_name: Final = module_name or f"{MODULE}{path.stem}"
        try:
            tree = ast.parse(path.read_bytes(), str(path))
        except OSError as error:
            raise FamilyError(f"{path}: cannot be read: {error.strerror or error}") from None
        except (SyntaxError, ValueError) as error:
            raise FamilyError(error_line(path, error, FamilyError)) from None
        self._code = _compiled(tree, path)
        self._names: Mapping[str, object] = {}
        """What its module holds before it runs."""
        self._classes: dict[str, type] = {}
        """The classes of the first run, by name."""
        answer_imports(path.parent)

    def edited(self, tree: ast.Module, names: Mapping[str, object]) -> Script:
        """Return the script with another syntax tree, and with names that its module holds."""
        twin = copy(self)
        twin._code, twin._names, twin._classes = _compiled(deepcopy(tree), self.path), names, {}
        return twin

    def describe(self, overrides: Configuration = _OVER_THE_SCRIPT) -> DescribedJob:
        """Run the script up to its job. Raises FamilyError.

        Args:
            overrides: the options that win over those of the script.
        """
        taken: list[DescribedJob] = []
        others: list[str] = []

        def take(description: JobDescription, name: str) -> JobClient:
            if taken or self._job not in ("", name):
                others.append(name)
                return _NotRun(name)
            taken.append(DescribedJob(name, description))
            raise _Taken

        said = io.StringIO()
        try:
            with (
                self._running(said),
                planning(),
                standing_in(TrialTables()),
                submitted(Configuration(), lambda graph: None, str(self.path), overrides, takes=take),
            ):
                self._execute()
        except _Taken:
            pass
        except SystemExit as error:
            if not taken and error.code:
                # A text is what Python writes before it ends with code 1.
                is_text = isinstance(error.code, str)
                last = (str(error.code) if is_text else said.getvalue()).strip().splitlines()[-1:]
                reason = f": {last[0]}" if last else ""
                raise FamilyError(
                    f"{self.path}: the program ends with exit code {1 if is_text else error.code} before it"
                    f" executes a job{reason}; its own arguments follow --, as in:"
                    f" onceproof run {self.path} -- --input FILE"
                ) from None
        except Exception as error:
            if not taken:
                raise FamilyError(error_line(self.path, error, FamilyError)) from error
        if not taken and others:
            near = nearest(self._job, others) or f"; there are {', '.join(map(repr, others))}"
            raise FamilyError(f"{self.path}: it executes no job of the name {self._job!r}{near}")
        if not taken:
            raise FamilyError(
                f"{self.path}: it executes no job: a family has generate() and job() at its top level, and a"
                " program calls execute()"
            )
        return taken[0]

    def _execute(self) -> None:
        module = ModuleType(self.module_name)
        module.__file__ = str(self.path)
        vars(module).update({"print": printed, _KEEP: self._kept, **self._names})
        self._forget_modules_beside()
        # Dataclasses and pickle look the module up here.
        sys.modules[self.module_name] = module
        exec(self._code, vars(module))

    def _kept(self, made: type) -> type:
        """Return the class of values that the first run has made, in place of an equal one."""
        first = self._classes.setdefault(made.__qualname__, made)
        return first if is_dataclass(first) or issubclass(first, tuple | Enum) else made

    def _forget_modules_beside(self) -> None:
        """Let the script import the modules in its folder anew, with their globals."""
        folders = {self.path.absolute().parent, *map(Path, _added)}
        unknown = [each for each in sys.modules.keys() - _known if not each.startswith(MODULE)]
        beside = modules_in(folders, unknown)
        for name in beside:
            del sys.modules[name]
        _known.update({*unknown} - {*beside})

    @contextmanager
    def _running(self, said: io.StringIO) -> Iterator[None]:
        folder = str(self.path.absolute().parent)
        arguments, current, sleep = sys.argv, os.getcwd(), time.sleep
        root = logging.getLogger()
        level, handlers = root.level, list(root.handlers)
        # Another version has modules of the same names in its own folder.
        sys.path[:] = [each for each in sys.path if each not in _added]
        if folder not in sys.path:
            _added.add(folder)
            sys.path.append(folder)
        sys.argv = [str(self.path), *self._arguments]
        vars(time)["sleep"] = _do_nothing
        try:
            with redirect_stdout(said), redirect_stderr(said), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            sys.argv = arguments
            os.chdir(current)
            vars(time)["sleep"] = sleep
            root.setLevel(level)
            root.handlers[:] = handlers


_added: Final[set[str]] = set()
"""The folders of scripts that stand in ``sys.path`` while one runs, and after the last one."""


def files_beside(script: Path) -> dict[Path, int]:
    """Return the files in the folder of a script and in the current one, by their last change."""
    found = {}
    for folder in {script.absolute().parent, Path.cwd()}:
        for path in folder.iterdir():
            with suppress(OSError):
                if path.is_file():
                    found[path] = path.stat().st_mtime_ns
    return found


_known: Final[set[str]] = set(sys.modules)
"""The modules that no script has imported from its own folder."""


def _do_nothing(*values: object, **settings: object) -> None:
    """Stand in for ``time.sleep`` in a script."""


def _compiled(tree: ast.Module, path: Path) -> CodeType:
    """Return the code of a script, which runs as the main module in one that has another name."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            node.decorator_list.insert(0, ast.copy_location(ast.Name(_KEEP, ast.Load()), node))
    return compile(_AsMain().visit(tree), str(path), "exec")


class _AsMain(ast.NodeTransformer):
    """Lets ``__name__ == "__main__"`` hold in a module that has another name."""

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Replace the comparison by what it gives in a script."""
        sides = [node.left, *node.comparators]
        names = {side.id for side in sides if isinstance(side, ast.Name)}
        texts = {side.value for side in sides if isinstance(side, ast.Constant)}
        if (
            len(node.ops) == 1
            and isinstance(node.ops[0], ast.Eq)
            and (names, texts) == ({"__name__"}, {"__main__"})
        ):
            return ast.copy_location(ast.Constant(True), node)
        return self.generic_visit(node)
