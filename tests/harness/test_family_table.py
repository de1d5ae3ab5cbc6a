"""The page of families, features and faults says what the families have."""

from __future__ import annotations

from onceproof.harness.model.family import family_names, load_family, options_of
from onceproof.harness.model.faults import FAULT_KINDS
from tests.family_table import PAGE, feature_rows

TEXT = PAGE.read_text(encoding="utf-8")
MEND = "python -m tests.family_table"


def test_page_has_the_features_of_each_family() -> None:
    assert feature_rows(family_names()) in TEXT, MEND


def test_scenarios_of_each_family_draw_each_kind_of_fault_that_it_allows() -> None:
    head, _, *rows = [line for line in TEXT.split("## Faults")[1].splitlines() if line.startswith("| ")]
    assert head.strip("| ").split(" | ") == ["family", *FAULT_KINDS], MEND
    assert [line.split(" | ")[0].strip("| ") for line in rows] == family_names(), MEND
    for line in rows:
        name, *counts = line.strip("| ").split(" | ")
        never = {kind for kind, count in zip(FAULT_KINDS, counts, strict=True) if int(count) == 0}
        assert never == ({"clock_back"} if options_of(load_family(name)).needs_steady_time else set()), line
