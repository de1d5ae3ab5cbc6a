"""The arguments of ``exactly_once``, and their division into tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceproof.harness.testing.family_test import SystemPool
from onceproof.harness.testing.scenario_plan import PlanError, ScenarioPlan, split_plans


def nowhere(path: object) -> Path:
    raise AssertionError(f"{path} was looked up")


@pytest.mark.parametrize(("scenarios", "shards"), [(1, 1), (7, 1), (7, 3), (3, 7), (200, 8)])
def test_shards_divide_the_scenarios_and_none_is_empty(scenarios: int, shards: int) -> None:
    parts = split_plans([ScenarioPlan("word_count", scenarios, shards)], None, None, nowhere)
    dealt = [part.asked for part in parts.values()]
    assert all(isinstance(numbers, range) and len(numbers) for numbers in dealt)
    assert sorted(number for numbers in dealt for number in numbers) == list(range(scenarios))  # type: ignore[union-attr]
    assert len(parts) == min(scenarios, shards)


def test_test_ids_contain_only_what_differs(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", "note.txt"):
        (tmp_path / name).write_text("{}")
    one, two = ScenarioPlan("x/sales.py", 9), ScenarioPlan(Path("rents.py"), 9, 2, regressions=tmp_path)
    assert list(split_plans([one], None, None, nowhere)) == ["scenarios"]
    assert list(split_plans([two], None, None, Path)) == ["1of2", "2of2", "a", "b"]
    assert list(split_plans([one, two], None, None, Path)) == [
        "sales",
        "rents-1of2",
        "rents-2of2",
        "rents-a",
        "rents-b",
    ]
    assert list(split_plans([one, one, ScenarioPlan(), ScenarioPlan(5)], None, None, nowhere)) == [
        "sales",
        "sales-2",
        "own",
        "own-2",
    ]


def test_replay_file_replaces_the_scenarios_but_not_the_regressions(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    parts = split_plans([ScenarioPlan("sales.py", 9, 2, regressions=tmp_path)], None, Path("one.json"), Path)
    assert [part.asked for part in parts.values()] == [Path("one.json")] * 2 + [tmp_path / "a.json"]


def test_overriding_number_of_scenarios_applies_to_all_plans() -> None:
    parts = split_plans([ScenarioPlan("sales.py", 9, 4), ScenarioPlan("rents.py", 2)], 3, None, nowhere)
    assert [part.scenarios for part in parts.values()] == [3] * 4
    assert list(parts) == ["sales-1of3", "sales-2of3", "sales-3of3", "rents"]


def test_missing_folder_of_regressions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=f"regressions: no such folder: {tmp_path}/kept"):
        split_plans([ScenarioPlan("sales.py", regressions=tmp_path / "kept")], None, None, Path)


class Started:
    def __init__(self) -> None:
        self.ended = 0

    def close(self) -> None:
        self.ended += 1


def test_system_is_started_once_and_closed_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "onceproof.harness.testing.family_test.find_system",
        lambda name: object() if name == "plain" else Started(),
    )
    systems = SystemPool()
    first = systems.find("spark", ["/library"])
    assert systems.find("spark", ["/library"]) is first
    # A family with modules in other folders gets another instance.
    second = systems.find("spark", [])
    assert second is not first
    plain = systems.find("plain", [])
    assert systems.find("plain", []) is plain
    systems.close()
    assert [first.ended, second.ended] == [1, 1]  # type: ignore[attr-defined]
    assert systems.find("spark", []) is not second
