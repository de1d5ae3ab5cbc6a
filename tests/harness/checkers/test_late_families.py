"""Families with late data as a user writes them: not accused while they are right, soon caught if not."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from onceproof.harness.explanation.cause import ConfirmedCause
from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.trials.counterfactuals import confirmed_cause
from onceproof.harness.trials.trial import scenario_of, try_scenario

FAMILIES = Path(__file__).parent / "late_families"
STATE = 'self.seen = context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))'
NAMES = {"orders": "order", "hourly_visits": "visit", "site_sessions": "click"}


def scenario_at(family: Family, index: int) -> Scenario:
    return scenario_of(family, scenario_seed(0, family.name, index))


def fails(family: Family, index: int) -> bool:
    scenario = scenario_at(family, index)
    return not try_scenario(family, scenario, twice=False, continued=False).verdict.passed


def cause_of(family: Family, scenario: Scenario) -> ConfirmedCause | None:
    signature = try_scenario(family, scenario, twice=False, continued=False).verdict.signature
    assert signature is not None
    return confirmed_cause(family, scenario, signature, scenario)


@pytest.mark.parametrize("name", NAMES)
def test_a_correct_family_with_late_data_passes(name: str) -> None:
    family = load_family(str(FAMILIES / f"{name}.py"))
    assert not [index for index in range(25) if fails(family, index)]


@pytest.mark.parametrize("name", NAMES)
def test_seen_ids_in_a_set_are_caught_within_50_scenarios_and_named(name: str, tmp_path: Path) -> None:
    text = (FAMILIES / f"{name}.py").read_text()
    record = NAMES[name]
    for right, wrong in (
        (STATE, "self.seen = set()"),
        ("if self.seen.value():", f"if {record}[0] in self.seen:"),
        ("self.seen.update(True)", f"self.seen.add({record}[0])"),
    ):
        assert text.count(right) == 1
        text = text.replace(right, wrong)
    (tmp_path / f"{name}.py").write_text(text)
    family = load_family(str(tmp_path / f"{name}.py"))
    failing = [*islice((scenario_at(family, index) for index in range(50) if fails(family, index)), 3)]
    assert len(failing) == 3
    causes = [cause_of(family, scenario) for scenario in failing]
    # Tasks that outlive their job master change what is carried over: such a cause is not confirmed.
    for scenario, cause in zip(failing, causes, strict=True):
        assert cause is not None or "kill_master" in [fault.kind for fault in scenario.faults]
    named = [cause for cause in causes if cause is not None]
    assert len(named) >= 2
    assert all("Dedup keeps `self.seen` outside Flink state" in cause.sentence for cause in named)


WATERMARK = "if ctx.timer_service().current_watermark() >= due:"


@pytest.mark.parametrize(
    ("instead", "mistake"),
    [
        ("if ctx.timer_service().current_watermark() >= 0:", "each order that is not the first is late"),
        ("if ctx.timer_service().current_watermark() >= ctx.timestamp():", "an hour that runs is over"),
        ("if False:", "no order is late"),
    ],
)
def test_wrong_lateness_is_caught_within_50_scenarios(instead: str, mistake: str, tmp_path: Path) -> None:
    text = (FAMILIES / "orders.py").read_text()
    plain, due = "FamilyOptions(declares=True)", "(int(row[2]) + 1) * 3_600_000 - 1"
    late = f'FamilyOptions(late="late", due=lambda row, _: {due} if row[0] == "hour" else None)'
    assert text.count(WATERMARK) == text.count(plain) == 1
    (tmp_path / "orders.py").write_text(text.replace(WATERMARK, instead).replace(plain, late))
    family = load_family(str(tmp_path / "orders.py"))
    assert any(fails(family, index) for index in range(50)), mistake
