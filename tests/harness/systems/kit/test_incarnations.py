"""What a process that ended without an event in its log has said."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from onceproof.harness.systems.kit.incarnations import last_line

CRASH = """
import ctypes, faulthandler
faulthandler.enable(all_threads=False)
print("begins", flush=True)
ctypes.string_at(0)
"""


@pytest.mark.parametrize(
    ("text", "said"), [("", "no message"), ("one\ntwo\n", "two")], ids=["nothing", "two lines"]
)
def test_last_line_of_an_output_is_the_cause(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "output").write_text(text)
    assert last_line(tmp_path / "output") == said


def test_crash_of_the_interpreter_names_its_place(tmp_path: Path) -> None:
    with (tmp_path / "output").open("wb") as output:
        ended = subprocess.run(
            [sys.executable, "-c", CRASH], stdout=output, stderr=subprocess.STDOUT, check=False
        )
    assert ended.returncode < 0
    said = last_line(tmp_path / "output")
    assert said.startswith('Fatal Python error: Segmentation fault File "')
    assert said.endswith("in string_at")
