"""The processes of a program on trial: started in sessions of their own, killed, stopped and let run on.

Rules:

- All that a process starts stays in its session, unless it leaves it on purpose. A kill is a SIGKILL to all
  of it, and counts as done when nothing of it lives.
- A program is one process, which is started again as a whole, or several that its file lists. Each of
  these is restarted by itself, as a supervisor would, unless its file says never.
- What it prints goes into a file, both streams together, in which marks are looked for; its standard output
  stands alone where it carries rows.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, TypeAlias

from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.program_processes import Process
from onceproof.harness.model.scenario import ANY_TASK, Fault
from onceproof.harness.services.service import die_with_parent
from onceproof.harness.systems.flink.jobs import JobProcess
from onceproof.harness.systems.kit.growing_file import GrowingFile
from onceproof.harness.systems.process.process_table import (
    command_of,
    end_session,
    session_members,
    worked_seconds,
)

MOST_LINES_SAID: Final = 20
SECONDS_BEFORE_RESTART: Final = 0.1
"""After a process has ended by itself."""
_STACK_LINE: Final = re.compile(r"\s*(at [\w.$/<>]+\(|\.\.\. \d+ more$)")


class ProgramProcess:
    """One start of a program.

    Args:
        words: the command.
        environment: of the program.
        folder: in which it runs.
        log: the file that gets what it prints.
        rows: the file that gets its standard output instead, where that carries rows.
        place: of the command in the file of the program, for errors.

    Raises:
        FamilyError: the command cannot be started.
    """

    def __init__(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        log: Path,
        rows: Path | None,
        place: str,
    ) -> None:
        self.log = log
        with log.open("ab") as printed, (rows or log).open("ab") as output:
            try:
                self._process = subprocess.Popen(
                    words,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=printed,
                    cwd=folder,
                    env=dict(environment),
                    start_new_session=True,
                    preexec_fn=die_with_parent,
                )
            except OSError as error:
                raise FamilyError(f"{place}: {words[0]}: {error.strerror or error}") from None
        self._printed = GrowingFile(log)

    @property
    def stdin(self) -> IO[bytes]:
        """Its standard input."""
        assert self._process.stdin is not None, "it was opened as a pipe"
        return self._process.stdin

    @property
    def exit_code(self) -> int | None:
        """How its first process has ended; None while that lives."""
        return self._process.poll()

    def worked_seconds(self) -> float:
        """Return how much processor time its processes have used that live."""
        return sum(map(worked_seconds, session_members(self._process.pid)))

    def new_lines(self) -> list[str]:
        """Return the lines that it has printed since the last call."""
        return self._printed.new_texts()

    def kill(self) -> None:
        """Kill all its processes, and return when they are dead."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        end_session(self._process.pid)
        self._process.wait()
        self._close()

    def discard(self) -> None:
        """Kill what is left of it: its trial is over, or it has ended by itself."""
        self.kill()

    def kill_part(self, pattern: str) -> bool:
        """Kill one process whose command line matches a pattern; return whether there was one."""
        for process in self._matching(pattern):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
                return True
        return False

    def has_part(self, pattern: str) -> bool:
        """Return whether a living process has a command line that matches a pattern."""
        return bool(self._matching(pattern))

    def pause(self) -> None:
        """Stop all its processes."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let all its processes run on."""
        self._signal(signal.SIGCONT)

    def stop(self, seconds: float) -> None:
        """Ask it to end by SIGTERM, and kill what is left of it after ``seconds``."""
        with suppress(ProcessLookupError):
            self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self.kill()

    def last_words(self) -> str:
        """Return the last line that it has printed; of a Java's stack trace, that of the innermost cause."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        if lines and _STACK_LINE.match(lines[-1]):
            lines = [line for line in lines if not _STACK_LINE.match(line)]
        return lines[-1].strip() if lines else "it printed nothing"

    def _signal(self, number: signal.Signals) -> None:
        for process in session_members(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def _matching(self, pattern: str) -> list[int]:
        members = sorted(session_members(self._process.pid))
        return [each for each in members if re.search(pattern, " ".join(command_of(each)))]

    def _close(self) -> None:
        with suppress(OSError):
            self.stdin.close()


Launched: TypeAlias = ProgramProcess | JobProcess
"""A process that runs, or a job of Flink with its cluster."""


@dataclass(slots=True)
class _Supervised:
    """A process of a program, its start that runs or ran last, and when it starts again."""

    process: Process
    start: Launched
    is_ready: bool
    has_ended: bool = False
    """Whether its end is known."""
    by_itself: bool = False
    """Whether it ended without a kill."""
    restart_at: float | None = None


class RunningProgram:
    """One start of a program: all of its processes.

    Args:
        processes: of which the program consists.
        launch: starts one of them.
        restart_delay_s: from the death of a process to its restart, where others live on.
    """

    def __init__(
        self,
        processes: Sequence[Process],
        launch: Callable[[Process], Launched],
        restart_delay_s: float,
    ) -> None:
        self._restart_delay_s = restart_delay_s
        self._all: dict[str, _Supervised] = {}
        self._killed_alone: dict[str, None] = {}
        try:
            for each in processes:
                self._all[each.name] = _Supervised(each, launch(each), not each.ready)
        except BaseException:
            self.kill()
            raise

    @property
    def stdin(self) -> IO[bytes] | None:
        """The standard input of the first process, if it has one."""
        return self._first.start.stdin

    @property
    def is_ready(self) -> bool:
        """Whether each process has said once that it is ready, if it says so."""
        return all(each.is_ready for each in self._all.values())

    @property
    def exit_code(self) -> int | None:
        """How the program has ended; None while a process lives or is going to be started again."""
        codes = [each.start.exit_code for each in self._all.values()]
        if None in codes or any(each.restart_at is not None for each in self._all.values()):
            return None
        return next((code for code in codes if code), 0)

    @property
    def cause(self) -> str:
        """How the program has ended, in words."""
        failed = [each.start for each in self._all.values() if each.start.exit_code]
        return _cause((failed or [self._first.start])[0])

    def tend(self, now: float, restart: Callable[[Process, bool], Launched]) -> list[str]:
        """Restart processes of several that are due; return how others have ended by themselves.

        ``restart`` starts a process again; its second argument is whether that had ended by itself.
        """
        causes: list[str] = []
        for each in self._all.values() if len(self._all) > 1 else ():
            if each.restart_at is not None and now >= each.restart_at:
                each.start, each.restart_at = restart(each.process, each.by_itself), None
                each.has_ended = each.by_itself = False
            elif not each.has_ended and each.start.exit_code is not None:
                each.has_ended = each.by_itself = True
                if each.process.restart == "always":
                    each.start.discard()
                    each.restart_at = now + SECONDS_BEFORE_RESTART
                if each.start.exit_code or each.process.restart == "always":
                    causes.append(f"{each.process.name}: {_cause(each.start)}")
        return causes

    def worked_seconds(self) -> float:
        """Return how much processor time its living processes have used."""
        return sum(each.start.worked_seconds() for each in self._all.values())

    def new_lines(self) -> list[str]:
        """Return the lines that it has printed since the last call."""
        lines: list[str] = []
        for each in self._all.values():
            new = each.start.new_lines()
            if not each.is_ready:
                each.is_ready = any(re.search(each.process.ready, line) for line in new)
            lines += new
        return lines

    def kill(self) -> None:
        """Kill all its processes, and return when they are dead."""
        for each in self._all.values():
            each.start.kill()

    def discard(self) -> None:
        """Kill what is left of it: its trial is over, or it has ended by itself."""
        for each in self._all.values():
            each.start.discard()

    def kill_one(self, parts: Sequence[str], fault: Fault) -> str | None:
        """Kill the part that a fault names, or one of some; return which, None if none lives."""
        turn = fault.occurrence % len(parts) if parts else 0
        for part in (*parts[turn:], *parts[:turn]) if fault.task == ANY_TASK else (fault.task,):
            if self.kill_part(part):
                self._killed_alone[part] = None
                return part
        return None

    def dead_parts(self) -> list[str]:
        """Return the parts that were killed alone and do not run again."""
        return [part for part in self._killed_alone if self.lacks(part)]

    def kill_part(self, part: str) -> bool:
        """Kill one process alone, by its name or a pattern for its command line; return whether it lived."""
        named = self._all.get(part)
        if named is not None:
            if named.start.exit_code is not None:
                return False
            named.start.kill()
            named.has_ended = True
            if named.process.restart == "always":
                named.restart_at = time.monotonic() + self._restart_delay_s
            return True
        return any(each.start.kill_part(part) for each in self._all.values())

    def is_down(self, part: str) -> bool:
        """Return whether a process is going to be started again."""
        return part in self._all and self._all[part].restart_at is not None

    def lacks(self, part: str) -> bool:
        """Return whether a part does not run and is not going to."""
        named = self._all.get(part)
        if named is not None:
            return named.start.exit_code is not None and named.restart_at is None
        return not any(each.start.has_part(part) for each in self._all.values())

    def pause(self) -> None:
        """Stop all its processes."""
        for each in self._all.values():
            each.start.pause()

    def resume(self) -> None:
        """Let all its processes run on."""
        for each in self._all.values():
            each.start.resume()

    def stop(self, seconds: float) -> None:
        """Ask one process after the other to end, and kill what is left of them after ``seconds`` in all."""
        deadline = time.monotonic() + seconds
        for each in self._all.values():
            each.start.stop(max(0.0, deadline - time.monotonic()))

    @property
    def _first(self) -> _Supervised:
        return next(iter(self._all.values()))


def last_output(log: Path | None) -> str:
    """Return the end of what a program has printed, as it ends the paragraph of a set-up problem."""
    said = [] if log is None else log.read_text(errors="replace").splitlines()
    if not said:
        return " The program printed nothing."
    return "".join(["\nThe program's last output:", *(f"\n  {line}" for line in said[-MOST_LINES_SAID:])])


def _cause(start: Launched) -> str:
    """Return how a process has ended, in words."""
    code = start.exit_code or 0
    return f"exit code {code}: {start.last_words()}" if code >= 0 else f"killed by signal {-code}"
