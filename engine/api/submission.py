"""Submissions: what the command line gives a program, and which jobs the program has executed.

The rules this module lives by:

- A program is one run of a script: this process, or what a command line runs inside ``submitted``.
- A name stands for one job within a checkpoint directory. A program that executes it a second time would go
  on from the end of the first execution and do nothing, so it is refused. An execution that has failed, was
  cancelled, or was stopped with a savepoint is no obstacle: the job goes on from there.
- Without a checkpoint directory nothing outlives an execution, so nothing is refused.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeAlias

from onceproof.engine.api.job_client import CompletableFuture, JobClient
from onceproof.engine.configuration import Configuration
from onceproof.engine.graph import InvalidJob, JobGraph

Announce: TypeAlias = Callable[[JobGraph], None]
Explain: TypeAlias = Callable[[Configuration], None]
Begins: TypeAlias = Callable[[str], None]
Takes: TypeAlias = Callable[[Any, str], JobClient]


class Submission(NamedTuple):
    """What a command line gives the program that it runs."""

    configuration: Configuration
    """Options over those that an environment is made with; what the program sets afterwards wins."""
    overrides: Configuration
    """Options over everything."""
    announce: Announce
    """Called with each job graph just before the job runs."""
    explain: Explain | None
    """Called before that with the options that count."""
    begins: Begins | None
    """Called with the id of each job that its runtime has taken."""
    takes: Takes | None = None
    """Called in place of running a job, with its description and its name, "" for none. The program gets the
    client that it returns."""


ENDING_SECONDS: Final = 5.0
"""How long a job that was stopped or cancelled may take until its thread has ended."""
NO_FILE: Final = "no file"
"""The program of a session at the prompt."""


class Program:
    """One run of a script; ``path`` is its file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._executions: dict[tuple[str, str], CompletableFuture[Any]] = {}
        """By checkpoint directory and job id, the result of the last execution."""

    def check_not_executed(self, graph: JobGraph) -> None:
        """Raise InvalidJob if the program has executed the job before, and the job is running or finished."""
        earlier = self._executions.get(_key(graph))
        if earlier is None:
            return
        wait((earlier,), ENDING_SECONDS)
        if not earlier.done():
            what = "is still running"
        elif _has_finished(earlier):
            what = "has finished"
        else:
            return
        raise InvalidJob(
            f"job {graph.identity!r} is executed a second time by this program, and the first execution"
            f" {what}: the second would resume from its checkpoints; give each execute() a name of its own"
        )

    def executes(self, graph: JobGraph, result: CompletableFuture[Any]) -> None:
        """Remember the execution of a job; ``result`` is what it will come to."""
        if graph.identity and graph.settings.directory is not None:
            self._executions[_key(graph)] = result


def _has_finished(result: CompletableFuture[Any]) -> bool:
    return not result.cancelled() and result.exception() is None and not result.result().stopped_with


def _key(graph: JobGraph) -> tuple[str, str]:
    directory = graph.settings.directory or ""
    return directory if "://" in directory else os.path.abspath(directory), graph.job_id


class _Process:
    """The programs that this process runs; the last one is the current one."""

    def __init__(self) -> None:
        self.programs: list[Program] = []
        self.submissions: list[Submission] = []
        """Those of the command lines that run a program."""

    def current(self) -> Program:
        if not self.programs:
            path = sys.argv[0] if sys.argv else ""
            self.programs.append(Program(os.path.abspath(path) if os.path.exists(path) else NO_FILE))
        return self.programs[-1]


_process: Final = _Process()


def current_program() -> Program:
    """Return the program that is running."""
    return _process.current()


def submissions() -> list[Submission]:
    """Return what each command line gives that runs a program; [] without one."""
    return _process.submissions


@contextmanager
def submitted(
    configuration: Configuration,
    announce: Announce,
    program: str,
    overrides: Configuration | None = None,
    explain: Explain | None = None,
    begins: Begins | None = None,
    takes: Takes | None = None,
) -> Iterator[None]:
    """Run a program as Flink's command line does.

    Inside the context every new environment gets the options of ``configuration`` over its own, and every job
    those of ``overrides`` over everything. Just before a job runs ``explain`` is called with the options that
    count, then ``announce`` with the job graph, and ``begins`` with its id once nothing refuses it any more.
    With ``takes`` no job runs: it takes their descriptions. ``program`` names the file.
    """
    current_program()
    _process.programs.append(Program(program))
    overriding = Configuration() if overrides is None else overrides
    _process.submissions.append(Submission(configuration, overriding, announce, explain, begins, takes))
    try:
        yield
    finally:
        _process.submissions.pop()
        _process.programs.pop()


@contextmanager
def executing(graph: JobGraph) -> Iterator[CompletableFuture[Any]]:
    """Remember an execution that lasts as long as the context; the body sets its result."""
    program = current_program()
    program.check_not_executed(graph)
    result: CompletableFuture[Any] = CompletableFuture()
    program.executes(graph, result)
    try:
        yield result
    except BaseException:
        # Its traceback would keep the whole execution in memory.
        result.cancel()
        raise
