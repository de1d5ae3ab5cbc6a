"""The pages that write a family step by step: their files, changes and commands give what they show.

The commands run in this process, with fewer scenarios than a page has. A shown line is compared by its first
words, but for counts and for the sentence of a failure, which depend on the scenarios; so is the exit code.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from onceproof.harness.commands.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGES = Path(__file__).parents[2] / "harness" / "docs"
CODES = {"passed": 0, "sound": 0, "FAILED": 1}


def steps_of(page: str) -> Iterator[tuple[str, str]]:
    """Yield language and content of each block of a page that does something."""
    text = (PAGES / page).read_text(encoding="utf-8")
    yield from re.findall(r"```(python|diff|console)\n(.*?)```\n", text, re.DOTALL)


def change(file: Path, diff: str) -> None:
    """Make a change that a page shows; the text before it is there once."""
    lines = diff.splitlines(keepends=True)
    old, new = ("".join(line[1:] for line in lines if line[0] in signs) for signs in (" -", " +"))
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1, old
    file.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(("page", "file"), [("event-time.md", "hours.py"), ("failures.md", "orders.py")])
def test_each_step_of_a_page_prints_what_it_shows(
    page: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    compared = 0
    for language, content in steps_of(page):
        if language == "python":
            Path(file).write_text(content, encoding="utf-8")
        elif language == "diff":
            change(Path(file), content)
        else:
            for part in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
                command, *shown = part.splitlines()
                words = command.split()[1:]
                # The last option counts. Fewer scenarios show the same, and what is found need not be small.
                if words[0] == "run":
                    words += ["--scenarios", "25", "-n", "1", "--shrink-runs", "0"]
                elif words[0] == "check":
                    words += ["--scenarios", "8"]
                capsys.readouterr()
                code = main(words)
                printed = capsys.readouterr().out
                shapes = iter([line.split()[:2] for line in printed.splitlines() if line.strip()])
                for line in shown:
                    is_a_detail = re.match(r"\s|\d|Every record|hours: |orders: ", line)
                    if line.strip() in ("", "...") or is_a_detail:
                        continue
                    # A failure may be shrunk to another scenario; what stands in front of it is the same.
                    first = [word.rstrip(",") for word in line.split()[:2]]
                    assert any([word.rstrip(",") for word in each] == first for each in shapes), printed
                    compared += 1
                verdict = [CODES[word] for line in shown for word in CODES if word in line.split()]
                assert code == (max(verdict) if verdict else 1), printed
    assert compared >= 3
