"""The page of families, features and faults says what the families have."""

from __future__ import annotations

import re

from onceproof.harness.model.family_places import family_names
from onceproof.harness.model.faults import JOB_FAULTS
from tests.family_table import PAGE, SERVER_FAULTS, allows, feature_rows

TEXT = PAGE.read_text(encoding="utf-8")
REMEDY = "python -m tests.family_table"


def test_page_has_the_features_of_each_family() -> None:
    assert feature_rows(family_names()) in TEXT, REMEDY


def test_scenarios_of_each_family_draw_each_kind_of_fault_that_it_allows() -> None:
    faults = TEXT.partition("## Faults")[2]
    fewest = re.findall(r"^\| (\w+) \| (\d+) \| \d+ \| \d+ \|$", faults, re.MULTILINE)
    assert [kind for kind, _ in fewest] == [*JOB_FAULTS, *SERVER_FAULTS], REMEDY
    assert [kind for kind, count in fewest if int(count) == 0] == []
    without = ", ".join(name for name in family_names() if not allows(name, "clock_back"))
    assert f"never draw `clock_back`: {without}.\n" in faults, REMEDY
