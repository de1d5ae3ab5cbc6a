"""Faults of the user's own: a command or an HTTP request that strikes, and one that takes it back.

Rules:

- A fault runs beside the trial: to strike, to wait and to undo never hold up what the harness sees.
- What fails is tried again for a while, since the program may be starting just then. A fault that never works
  is a mistake in the file, and ends the run.
- What was struck is undone before the trial ends, if it can be: it may be gone by then.
"""

from __future__ import annotations

import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Final

from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.program_file import ProgramFile
from onceproof.harness.model.program_processes import OwnFault, Request
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.program.user_commands import CannotStart, how_it_failed, run_command

_LEAST_SECONDS_TO_WORK: Final = 30.0
_LEAST_SECONDS_OF_A_TRY: Final = 20.0
_SECONDS_BETWEEN_TRIES: Final = 0.2


class StrikingFault(threading.Thread):
    """A fault of the user's own that strikes, lasts, and is undone.

    Args:
        fault: as the file of the program describes it.
        seconds: how long it lasts, if it is undone.
        fill: replaces placeholders.
        folder: in which its commands run.
        place: of the file, for errors.
        seconds_to_work: for how long it is tried to strike, and to undo it.
    """

    def __init__(
        self,
        fault: OwnFault,
        seconds: float,
        fill: Callable[[str], str],
        folder: Path,
        place: str,
        seconds_to_work: float,
    ) -> None:
        super().__init__(daemon=True)
        self._fault = fault
        self._seconds = seconds
        self._fill = fill
        self._folder = folder
        self._place = f"{place}: fault {fault.name!r}"
        self._is_to_end = threading.Event()
        self._seconds_to_work = max(_LEAST_SECONDS_TO_WORK, seconds_to_work)
        self._seconds_of_a_try = max(_LEAST_SECONDS_OF_A_TRY, seconds_to_work / 2)
        self._problem = ""
        self.start()

    def run(self) -> None:
        """Strike, wait, and undo."""
        action = self._fault.command or self._fault.request
        assert action is not None, "the file was checked"
        self._problem = self._carry_out(action)
        if self._problem or self._fault.undo is None:
            return
        self._is_to_end.wait(self._seconds)
        is_late = self._is_to_end.is_set()
        problem = self._carry_out(self._fault.undo)
        self._problem = "" if is_late or not problem else f"undo: {problem}"

    def is_over(self) -> bool:
        """Return whether it has struck and is undone. Raises FamilyError if that does not work."""
        if self.is_alive():
            return False
        if self._problem:
            raise FamilyError(f"{self._place}: {self._problem}")
        return True

    def end(self) -> None:
        """Undo it now, and return when that is done."""
        self._is_to_end.set()
        self.join()

    def _carry_out(self, action: tuple[str, ...] | Request) -> str:
        """Do something until it works; return the problem if it never does."""
        deadline = time.monotonic() + self._seconds_to_work
        while True:
            problem = self._sent(action) if isinstance(action, Request) else self._ran(action)
            if not problem or time.monotonic() > deadline or self._is_to_end.wait(_SECONDS_BETWEEN_TRIES):
                return problem

    def _ran(self, command: tuple[str, ...]) -> str:
        words = [self._fill(word) for word in command]
        try:
            done = run_command(words, self._folder, self._seconds_of_a_try)
        except subprocess.TimeoutExpired:
            return f"{words[0]}: no end after {self._seconds_of_a_try:.0f} s"
        except CannotStart as error:
            return str(error)
        return how_it_failed(done.returncode, done.stderr or done.stdout) if done.returncode else ""

    def _sent(self, request: Request) -> str:
        url = self._fill(request.url)
        headers = {name: self._fill(value) for name, value in request.headers.items()}
        body = self._fill(request.body).encode() if request.body else None
        try:
            asked = urllib.request.Request(url, body, headers, method=request.method)
            with urllib.request.urlopen(asked, timeout=self._seconds_of_a_try):
                return ""
        except (OSError, ValueError) as error:
            return f"{request.method} {url}: {getattr(error, 'reason', None) or error}"


class OwnFaults:
    """Those of one trial that have begun to strike and are not undone.

    Args:
        file: that describes them.
        folder: of the trial.
        place: the path of the file, for errors.
        seconds_to_work: for how long each is tried, since the program may be starting just then.
    """

    def __init__(self, file: ProgramFile, folder: Path, place: str, seconds_to_work: float) -> None:
        self._described = {each.name: each for each in file.fault}
        self._folder = folder
        self._place = place
        self._seconds_to_work = seconds_to_work
        self._striking: list[StrikingFault] = []

    @property
    def are_striking(self) -> bool:
        """Whether one is not undone."""
        return bool(self._striking)

    def strike(self, fault: Fault, fill: Callable[[str], str]) -> None:
        """Let a fault of a scenario begin to strike. Raises FamilyError if the file does not describe it."""
        own = self._described.get(fault.name)
        if own is None:
            raise FamilyError(
                f"{self._place}: the scenario has a fault {fault.name!r}, which the file does not have"
            )
        seconds = fault.delay / 1000
        self._striking.append(
            StrikingFault(own, seconds, fill, self._folder, self._place, self._seconds_to_work)
        )

    def has_undone(self) -> bool:
        """Return whether one was undone since the last call. Raises FamilyError if that does not work."""
        before = len(self._striking)
        self._striking = [each for each in self._striking if not each.is_over()]
        return len(self._striking) < before

    def end(self) -> None:
        """Undo all, and return when that is done."""
        for each in self._striking:
            each.end()
