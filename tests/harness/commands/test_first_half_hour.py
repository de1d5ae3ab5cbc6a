"""The page "The first half hour": its steps do what it says, with the code that stands in it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from onceproof.harness.model.exit_codes import FAILED, PASSED

if TYPE_CHECKING:
    from tests.harness.commands.conftest import Command

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "harness" / "docs" / "first-half-hour.md"
REDUCE = 'by_shop.reduce(lambda total, sale: (total[0], total[1] + sale[1])).name("total").uid("total")'
RUN = ("run", "--scenarios", "40", "-n", "1", "--shrink-runs", "300")


def with_total(family: str, total: str, names: str) -> str:
    """Return the family of init with a function of the page in the place of the reduce."""
    page = PAGE.read_text(encoding="utf-8")
    [call] = re.findall(r"`totals = (by_shop\.flat_map\(.*?)`", page)
    assert REDUCE in family
    family = family.replace(REDUCE, call).replace("import Types", f"import {names}")
    before, generate, after = family.partition("def generate(")
    return f"{before}{total}\n\n{generate}{after}"


def test_the_bug_of_the_page_is_found_and_its_mend_passes(
    onceproof: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, mended = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert onceproof("init", "sales").code == PASSED
    monkeypatch.chdir("sales")
    family = Path("sales.py")
    sound = family.read_text(encoding="utf-8")
    family.write_text(with_total(sound, broken, "FlatMapFunction, Types"), encoding="utf-8")
    found = onceproof(*RUN)
    assert found.code == FAILED
    assert "FAILED sales: exactly_once, wrong value, in " in found.out
    # The same signature has the same name each time, so the page can name the file.
    [scenario] = re.findall(r"cp (reports/out/run/failures/\S+\.json) regressions/", PAGE.read_text())
    assert Path(scenario).is_file()
    shutil.copy(scenario, "regressions")
    kept = Path("regressions", Path(scenario).name)
    assert onceproof("replay", str(kept), "--family", "sales.py").code == FAILED
    names = "FlatMapFunction, Types, ValueStateDescriptor"
    family.write_text(with_total(sound, mended, names), encoding="utf-8")
    assert onceproof("replay", str(kept), "--family", "sales.py").code == PASSED
    assert "sales: 40 scenarios, passed" in onceproof(*RUN).out
