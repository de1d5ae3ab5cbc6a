"""Starts pytest and onceproof in processes of their own, without importing everything for each of them.

Rules:

- A start in a user's project spends most of its time on imports. The forker is a process that has imported
  the same modules once, and forks for each request. The fork runs the script `pytest` or `onceproof`, with
  the arguments, folder, environment and outputs of the request, and ends as any process does.
- The plugin itself is not imported before a fork: when it is imported, and what it finds, is its own matter.
- No warning is let pass while the modules are imported, as in a start of pytest with `-W error`.
- A request whose environment changes the start of Python has to start a process.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TextIO

from tests.patience import PATIENCE_SECONDS

SCRIPTS: Final = Path(sys.executable).parent
"""Where `pytest` and `onceproof` are."""
IMPORTED: Final = (
    "onceproof.harness.commands.replay",
    "onceproof.harness.testing.failure_text",
    "onceproof.harness.testing.family_test",
)


class Forker:
    """The forker, as the tests see it."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.harness.testing.forker"],
            cwd=Path(__file__).parents[3],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run `pytest` or `onceproof` to its end, as subprocess.run does. Raises TimeoutExpired."""
        outputs = [self._folder / "stdout", self._folder / "stderr"]
        request = {
            "arguments": [str(SCRIPTS / command[0]), *command[1:]],
            "folder": str(folder),
            "environment": dict(environment),
            "outputs": list(map(str, outputs)),
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        code = int(self._process.stdout.readline())
        if code == -signal.SIGALRM:
            raise subprocess.TimeoutExpired(command, PATIENCE_SECONDS)
        out, error = (path.read_text(encoding="utf-8") for path in outputs)
        return subprocess.CompletedProcess(request["arguments"], code, out, error)

    def close(self) -> None:
        """End the forker."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def main() -> None:
    """Fork for each line of the standard input; answer with the exit code of the fork."""
    # The script of a virtual environment finds modules in its own folder first.
    sys.path[0] = str(SCRIPTS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("pytest", *_plugins_of_pytest(), *IMPORTED):
            import_module(name)
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    for line in requests:
        pid = os.fork()
        if pid == 0:
            _become_script(json.loads(line), requests, answers)
            return
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


def _plugins_of_pytest() -> list[str]:
    from _pytest.config import default_plugins

    return [f"_pytest.{name}" for name in default_plugins]


def _become_script(request: Mapping[str, Any], *ours: TextIO) -> None:
    """Run the script in this process. Its SystemExit ends the process."""
    for stream in ours:
        stream.close()
    for descriptor, path in enumerate((os.devnull, *request["outputs"])):
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = list(request["arguments"])
    signal.alarm(int(PATIENCE_SECONDS))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
