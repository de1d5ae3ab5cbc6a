"""What the tests of the command share: the README's family, one with a bug, and the command itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli import main

README = Path(__file__).parents[3] / "README.md"

# The README's family with its totals where no checkpoint sees them.
_REDUCE = "by_shop.reduce(lambda total, sale: (total[0], total[1] + sale[1]))"
_BUG = "by_shop.process(Total(), Types.TUPLE([Types.STRING(), Types.LONG()]))"
_TOTAL = """

from engine import KeyedProcessFunction


class Total(KeyedProcessFunction):
    def open(self, runtime_context):
        self.totals = {}

    def process_element(self, value, ctx):
        shop, cents = value
        self.totals[shop] = self.totals.get(shop, 0) + cents
        yield shop, self.totals[shop]
"""


class Outcome:
    """What a command left: exit code, stdout, stderr."""

    def __init__(self, code: int, out: str, error: str) -> None:
        self.code = code
        self.out = out
        self.error = error


Command = Callable[..., Outcome]


@pytest.fixture
def onceproof(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Return a function that runs the command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Outcome:
        code = main(arguments)
        captured = capfd.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    """Return the file of the family that the README shows."""
    text = README.read_text(encoding="utf-8")
    found = re.search(r"```python\n(\"\"\"Sales.*?)```", text, re.DOTALL)
    assert found is not None
    path = tmp_path / "sales.py"
    path.write_text(found[1], encoding="utf-8")
    return path


@pytest.fixture
def forgetful(sales: Path) -> Path:
    """Return the file of a family whose job forgets its totals when it is killed."""
    text = sales.read_text(encoding="utf-8")
    assert _REDUCE in text
    path = sales.with_name("forgetful.py")
    path.write_text(
        text.replace(_REDUCE, _BUG).replace('"sales"\n', '"forgetful"\n', 1) + _TOTAL, encoding="utf-8"
    )
    return path
