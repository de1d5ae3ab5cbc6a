"""The output in the documentation is what its commands print: `python -m tests.doc_output` writes it anew."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.doc_output import ROOT, followed, masked, pages, selected
from tests.test_docs import NAMES

OUTPUT = re.compile(
    r"^(FAILED |\w+: [\d,]+ scenarios?, |step \d+: |what it takes|Every record exactly once)", re.MULTILINE
)


@pytest.mark.parametrize("name", pages())
def test_page_shows_what_its_commands_print(name: str, tmp_path: Path) -> None:
    page, _ = followed(name, tmp_path)
    assert page == (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_output_stands_with_its_command_or_is_a_recording(name: str) -> None:
    blocks = re.findall(r"```(\w*)\n(.*?)```\n", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)
    assert [
        text for language, text in blocks if language not in ("console", "text") and OUTPUT.search(text)
    ] == []


def test_lines_that_are_shown_are_found_in_order_and_renewed() -> None:
    printed = ["a: 1 rows", "  step 1: x", "  step 2: y", "a: 2 rows"]
    assert selected(["a: 7 rows", "...", "  step 9: x"], printed) == ["a: 1 rows", "...", "  step 1: x"]
    assert selected(["  step 2: y", "..."], printed) == ["  step 2: y", "..."]
    with pytest.raises(AssertionError, match="no line like 'b: 1'"):
        selected(["b: 1"], printed)


def test_what_a_machine_decides_is_not_shown() -> None:
    line = "50 scenarios in 0.5 s on 2 workers (7 ms each), 86 kills, 27 rescales; trace hash 4d00"
    assert masked(line) == "50 scenarios in … on … workers (… each), 86 kills, 27 rescales; trace hash 4d00"
    assert masked("3 passed in 1.35s") == "3 passed in …"
    assert masked("3 passed in 143.35s (0:02:23)") == "3 passed in …"
    assert masked("  matters  watermarks every 1 ms") == "  matters  watermarks every 1 ms"
