"""The page of families, features and faults says what the families have."""

from __future__ import annotations

from onceproof.harness.model.family import options_of
from onceproof.harness.model.family_places import family_names, load_family
from onceproof.harness.model.faults import JOB_FAULTS
from tests.family_table import PAGE, SERVER_FAULTS, feature_rows

TEXT = PAGE.read_text(encoding="utf-8")
MEND = "python -m tests.family_table"


def test_page_has_the_features_of_each_family() -> None:
    assert feature_rows(family_names()) in TEXT, MEND


def test_scenarios_of_each_family_draw_each_kind_of_fault_that_it_allows() -> None:
    lines = [line for line in TEXT.split("## Faults")[1].splitlines() if line.startswith("| ")]
    cells = [line.strip("| ").split(" | ") for line in lines]
    names = family_names()
    with_servers = [name for name in names if options_of(load_family(name)).servers]
    tables = ((JOB_FAULTS, names), (SERVER_FAULTS, with_servers))
    heads = [cell for _, rows in tables for cell in ("family", "---", *rows)]
    assert [line[0] for line in cells] == heads, MEND
    for kinds, rows in tables:
        head, _, *table = cells[: 2 + len(rows)]
        del cells[: 2 + len(rows)]
        assert head == ["family", *kinds], MEND
        for name, *counts in table:
            never = {kind for kind, count in zip(kinds, counts, strict=True) if int(count) == 0}
            is_unfit = kinds == JOB_FAULTS and options_of(load_family(name)).needs_steady_time
            assert never == ({"clock_back"} if is_unfit else set()), name
