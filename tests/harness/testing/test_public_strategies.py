"""The public strategies: the example of the page, and a failing example as a scenario file."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings

from onceproof import strategies
from onceproof.engine.extras import PACKAGES, ExtraMissing
from onceproof.harness.commands.cli import main
from onceproof.harness.model.scenario import Fault, Scenario, read_scenario

PAGES = Path(__file__).parents[3] / "harness" / "docs"
FAMILY = re.findall(r"```python\n(.*?)```", (PAGES / "families.md").read_text(encoding="utf-8"), re.DOTALL)[0]
FORGETFUL = FAMILY.replace("total[1] + sale[1]", "max(total[1], sale[1])")
ONCE = settings(max_examples=30, deadline=None, database=None, phases=(Phase.generate,))


@pytest.fixture(autouse=True)
def sales(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("sales.py").write_text(FAMILY, encoding="utf-8")
    return tmp_path / "sales.py"


def test_example_of_the_page_passes() -> None:
    page = (PAGES / "pytest.md").read_text(encoding="utf-8")
    [example] = [each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "@given" in each]
    names: dict[str, object] = {}
    exec(compile(example, "pytest.md", "exec"), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        assert callable(test)
        test()


def test_failing_example_is_a_scenario_file_with_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    Path("sales.py").write_text(FORGETFUL, encoding="utf-8")

    @ONCE
    @given(strategies.scenarios("sales.py"))
    def each_sale_is_counted_once(scenario: Scenario) -> None:
        strategies.assert_exactly_once("sales.py", scenario)

    with pytest.raises(AssertionError) as failed:
        each_sale_is_counted_once()
    first, second, third = str(failed.value).splitlines()
    assert first.startswith("sales: exactly_once, ")
    path = second.removeprefix("scenario: ")
    assert read_scenario(Path(path)).family == "sales"
    command = shlex.split(third.removeprefix("replay:   "))
    assert command == ["onceproof", "replay", path, "--family", "sales.py"]
    assert main(command[1:]) == 1
    assert "FAILED exactly_once" in capsys.readouterr().out


def test_records_and_faults_of_the_user_are_those_of_the_scenario() -> None:
    from hypothesis import strategies as st

    kill = Fault("kill_task", "element", occurrence=2)
    mine = strategies.structured_scenarios(
        "sales.py", records=st.just({"north": [(3, ("north", 7))] * 3}), faults=st.just((kill,))
    )
    seen: list[Scenario] = []

    @settings(ONCE, max_examples=5)
    @given(mine)
    def collect(scenario: Scenario) -> None:
        seen.append(scenario)
        strategies.assert_exactly_once("sales.py", scenario)

    collect()
    assert {each.records["north"] for each in seen} == {((3, ("north", 7)),) * 3}
    assert {each.faults for each in seen} == {(kill,)}


def test_parts_of_scenarios_are_drawn_alone() -> None:
    @settings(ONCE, max_examples=5)
    @given(strategies.faults("sales.py"), strategies.schedules())
    def holds(fault: Fault, schedule: object) -> None:
        assert fault.kind
        assert schedule is not None

    holds()


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "onceproof.strategies")
    monkeypatch.setitem(PACKAGES, "hypothesis", ("absent_hypothesis",))
    with pytest.raises(ExtraMissing, match=r"onceproof.strategies needs .*onceproof\[hypothesis\]"):
        __import__("onceproof.strategies")
