"""The processes of a program on trial: started in a session of their own, killed, stopped and let run on.

The rules this module lives by:

- All that a program starts stays in its session, unless it leaves it on purpose. A kill is a SIGKILL to all
  of it, and counts as done when nothing of it lives.
- What it prints goes into a file, both streams together, in which marks are looked for; its standard output
  stands alone where it carries rows.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import psutil

from onceproof.harness.model.family import FamilyError
from onceproof.harness.services.service import die_with_parent
from onceproof.harness.systems.process.process_table import command_of, end_session, session_members

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
        self._read = 0
        self._rest = b""

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
        worked = 0.0
        for process in session_members(self._process.pid):
            with suppress(psutil.Error):
                worked += sum(psutil.Process(process).cpu_times()[:2])
        return worked

    def new_lines(self) -> list[str]:
        """Return the lines that it has printed since the last call."""
        with self.log.open("rb") as stream:
            stream.seek(self._read)
            block = stream.read()
        self._read += len(block)
        *lines, self._rest = (self._rest + block).split(b"\n")
        return [line.decode(errors="replace") for line in lines]

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
        for process in sorted(session_members(self._process.pid)):
            if re.search(pattern, " ".join(command_of(process))):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                    return True
        return False

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

    def _close(self) -> None:
        with suppress(OSError):
            self.stdin.close()
