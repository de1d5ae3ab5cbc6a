"""Follows the pages that show commands with their output, and writes the output into them.

    python -m tests.doc_output             # all pages
    python -m tests.doc_output README.md   # one

Rules:

- A page is read from top to bottom, in an empty folder of its own. A block of python whose text names a file
  last, as in `sales.py`, is that file; a block of diff changes it; a block of console is run.
- In a block of console a line that begins with `$ ` is a command, and what follows is what it prints on
  stdout. A line `...` stands for lines that are left out.
- What a machine decides, such as a duration, is printed as `…`. All else is a function of the commands.
- The file of a failure is named after what fails. Commands follow it where its name changes.
- Output of other engines, servers and minutes of work stands in a block of text: a recording.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Final
from unittest.mock import patch

from onceproof.harness.commands.cli import main as onceproof

ROOT: Final = Path(__file__).parents[1]
PROGRAMS: Final = Path("scenarios", "programs")
LEFT_OUT: Final = "..."
VARIABLE: Final = (
    (
        re.compile(r" in [^ ]+ (?:µs|ms|s|min)(?: [^ ]+ s)? on \d+ workers? \([^)]* each\)"),
        " in … on … workers (… each)",
    ),
    (re.compile(r"((?:passed|failed)\b.*) in [\d.]+s(?: \([\d:]+\))?"), r"\1 in …"),
)
"""What a machine decides, and how it is shown."""
_FAILURE: Final = re.compile(r"\b(\w+)-[0-9a-f]{6}\b(?!\.original)")
_BLOCK: Final = re.compile(r"```(\w+)\n(.*?)```\n", re.DOTALL)


def pages() -> list[str]:
    """Return the pages that show commands with their output."""
    found = [ROOT / "README.md", *ROOT.glob("*/docs/*.md"), *ROOT.glob("scenarios/*/README.md")]
    return sorted(
        page.relative_to(ROOT).as_posix()
        for page in found
        if "```console\n" in page.read_text(encoding="utf-8")
    )


@dataclass
class Follower:
    """Does what a page says, and writes what comes of it."""

    folder: Path
    file: Path | None = None
    """The file that the page has written or changed last."""
    transcript: list[str] = field(default_factory=list)
    _kept: dict[str, str] = field(default_factory=dict)
    """By family, the file of its first failure."""
    _environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTEST_", "ONCEPROOF_")) and name not in ("CI", "COLUMNS")
        }
        self._environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        # Hypothesis' plugin takes three times as long to import as everything else.
        self._environment["PYTEST_ADDOPTS"] = "-p no:hypothesispytest -p no:cacheprovider"
        (self.folder / "pyproject.toml").write_text("[tool.onceproof]\nworkers = 1\n", encoding="utf-8")
        (self.folder / PROGRAMS).parent.mkdir(parents=True)
        (self.folder / PROGRAMS).symlink_to(ROOT / PROGRAMS)

    def follow(self, page: str) -> str:
        """Return the page with the output that its commands print here."""
        made, end = [], 0
        for block in _BLOCK.finditer(page):
            text, language, content = page[end : block.start()], *block.groups()
            named = re.findall(r"`(\w+\.py)`", text)
            if language == "console":
                content = "".join(self._run(content))
            elif language == "diff":
                self._change(self.folder / named[-1] if named else self.file, content)
            elif language == "python" and named:
                self.file = self.folder / named[-1]
                self.file.write_text(content, encoding="utf-8")
            made.append(f"{text}```{language}\n{content}```\n")
            end = block.end()
        return "".join([*made, page[end:]])

    def _change(self, file: Path | None, diff: str) -> None:
        """Make a change that a page shows; the text before it is there once."""
        assert file is not None, f"no file to change by\n{diff}"
        lines = diff.splitlines(keepends=True)
        old, new = ("".join(line[1:] for line in lines if line[0] in signs) for signs in (" -", " +"))
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{file.name} does not have once:\n{old}"
        file.write_text(text.replace(old, new), encoding="utf-8")
        self.file = file

    def _run(self, content: str) -> Iterator[str]:
        """Run the commands of a block, and yield it with what they print."""
        for part in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
            command, *shown = part.splitlines()
            command = _FAILURE.sub(lambda found: self._kept.get(found[1], found[0]), command)
            code, out, error = self._type(command)
            assert code in (0, 1), f"{command}: exit code {code}\n{error}"
            printed = [masked(line).rstrip() for line in out.splitlines()]
            self.transcript += [f"$ {command}", *printed, *error.splitlines(), ""]
            for found in _FAILURE.finditer(out):
                self._kept.setdefault(found[1], found[0])
            yield f"$ {command}\n"
            lines = selected(shown, printed) if LEFT_OUT in shown else printed
            yield from (f"{line}\n" for line in lines)

    def _type(self, command: str) -> tuple[int, str, str]:
        """Return exit code, stdout and stderr of a command."""
        if not re.fullmatch(r"onceproof [\w ./:-]+", command):
            # The folder may change.
            place = self.folder / ".place"
            ended = subprocess.run(
                ["sh", "-c", f"{command}\ncode=$?; pwd >'{place.absolute()}'; exit $code"],
                cwd=self.folder,
                env=self._environment,
                capture_output=True,
                text=True,
                check=False,
            )
            self.folder = Path(place.read_text(encoding="utf-8").strip())
            return ended.returncode, ended.stdout, ended.stderr
        # In this process, because a start takes longer than most commands.
        out, error = StringIO(), StringIO()
        with (
            chdir(self.folder),
            patch.dict(os.environ, self._environment, clear=True),
            redirect_stdout(out),
            redirect_stderr(error),
        ):
            code = onceproof(shlex.split(command)[1:])
        # The page may change a module before its next command.
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None)).startswith(str(self.folder)):
                del sys.modules[name]
        return code, out.getvalue(), error.getvalue()


def masked(line: str) -> str:
    """Return a line of output without what a machine decides."""
    for pattern, text in VARIABLE:
        line = pattern.sub(text, line)
    return line


def selected(shown: list[str], printed: list[str]) -> list[str]:
    """Return of what is printed the lines that the page shows, each found by how it begins, in order."""
    lines, place = [], 0
    for line in shown:
        if line == LEFT_OUT:
            lines.append(line)
            continue
        at = _place_of(line, printed, place)
        assert at is not None, f"no line like {line!r} in\n" + "\n".join(printed)
        lines.append(printed[at])
        place = at + 1
    return lines


def _place_of(line: str, printed: list[str], place: int) -> int | None:
    """Return where a line is from a place on: the very line, else one that begins with the same words."""
    rest = range(place, len(printed))
    for is_it in (
        lambda other: other == line,
        lambda other: _words(other)[:3] == _words(line)[:3],
        lambda other: _words(other)[:2] == _words(line)[:2],
        lambda other: _words(other)[:1] == _words(line)[:1],
    ):
        at = next((each for each in rest if is_it(printed[each])), None)
        if at is not None:
            return at
    return None


def _words(line: str) -> list[str]:
    return [re.sub(r"[\d,.:()]+", "", word) for word in line.split()]


def followed(name: str, folder: Path) -> tuple[str, str]:
    """Return a page with the output of its commands, and all that they have printed."""
    follower = Follower(folder)
    page = follower.follow((ROOT / name).read_text(encoding="utf-8"))
    return page, "\n".join(follower.transcript)


def main(names: list[str]) -> None:
    """Rewrite pages."""
    for name in names or pages():
        with tempfile.TemporaryDirectory() as folder:
            page, transcript = followed(name, Path(folder))
        print(f"== {name}\n{transcript}")
        (ROOT / name).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
