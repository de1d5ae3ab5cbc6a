"""A user's ledger with event-time timers: its bug is found soon, and its sound version is never accused.

Both are written from the documentation: the sound one is its example, and the bug is the one that it names.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from onceproof.harness.trials.run_plan import RunPlan
from onceproof.harness.trials.runner import run

PAGE = Path(__file__).parents[2] / "harness" / "docs" / "families.md"

IN_A_DICT = {
    'self.balance = context.get_state(ValueStateDescriptor("balance", Types.LONG()))': "self.balances = {}",
    "(self.balance.value() or 0)": "self.balances.get(ctx.get_current_key(), 0)",
    "self.balance.update(balance)": "self.balances[ctx.get_current_key()] = balance",
}


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Return the file of the documentation's example."""
    section = PAGE.read_text(encoding="utf-8").partition("## Event time and timers")[2]
    (code,) = re.findall(r"```python\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    path = tmp_path / "ledger.py"
    path.write_text(code, encoding="utf-8")
    return path


def test_balances_in_a_dict_are_found_within_50_scenarios(ledger: Path) -> None:
    code = ledger.read_text(encoding="utf-8")
    for sound, wrong in IN_A_DICT.items():
        assert code.count(sound) == 1
        code = code.replace(sound, wrong)
    ledger.write_text(code, encoding="utf-8")
    tally = run(RunPlan((str(ledger),), scenarios=50, workers=1)).tally
    assert ("ledger", ("exactly_once", "wrong value")) in tally.groups


def test_balances_in_keyed_state_pass_60_scenarios(ledger: Path) -> None:
    tally = run(RunPlan((str(ledger),), scenarios=60, workers=1)).tally
    assert tally.scenarios == 60
    assert tally.failed == 0
    family = tally.families["ledger"]
    # Most timers fire while faults can still strike.
    assert family.timers_before_end > family.timers_at_end > 0
    assert not family.timers_only_at_end
