"""What a test asks for, and which tests are made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceproof.harness.testing.family_test import Systems
from onceproof.harness.testing.test_request import Plan, PlanError, parts_of


def nowhere(path: object) -> Path:
    raise AssertionError(f"nobody asked where {path} is")


@pytest.mark.parametrize(("scenarios", "shards"), [(1, 1), (7, 1), (7, 3), (3, 7), (200, 8)])
def test_the_shards_share_the_scenarios_out_and_none_is_without(scenarios: int, shards: int) -> None:
    parts = parts_of([Plan("word_count", scenarios, shards)], None, None, nowhere)
    dealt = [part.asked for part in parts.values()]
    assert all(isinstance(numbers, range) and len(numbers) for numbers in dealt)
    assert sorted(number for numbers in dealt for number in numbers) == list(range(scenarios))  # type: ignore[union-attr]
    assert len(parts) == min(scenarios, shards)


def test_names_say_what_tells_the_tests_apart_and_no_more(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", "note.txt"):
        (tmp_path / name).write_text("{}")
    one, two = Plan("x/sales.py", 9), Plan(Path("rents.py"), 9, 2, regressions=tmp_path)
    assert list(parts_of([one], None, None, nowhere)) == ["scenarios"]
    assert list(parts_of([two], None, None, Path)) == ["1of2", "2of2", "a", "b"]
    assert list(parts_of([one, two], None, None, Path)) == [
        "sales",
        "rents-1of2",
        "rents-2of2",
        "rents-a",
        "rents-b",
    ]
    assert list(parts_of([one, one, Plan(), Plan(5)], None, None, nowhere)) == [
        "sales",
        "sales-2",
        "own",
        "own-2",
    ]


def test_a_file_stands_in_for_all_scenarios_and_for_no_regression(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    parts = parts_of([Plan("sales.py", 9, 2, regressions=tmp_path)], None, Path("one.json"), Path)
    assert [part.asked for part in parts.values()] == [Path("one.json")] * 2 + [tmp_path / "a.json"]


def test_another_number_of_scenarios_holds_for_all_plans() -> None:
    parts = parts_of([Plan("sales.py", 9, 4), Plan("rents.py", 2)], 3, None, nowhere)
    assert [part.scenarios for part in parts.values()] == [3] * 4
    assert list(parts) == ["sales-1of3", "sales-2of3", "sales-3of3", "rents"]


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=f"regressions: no such folder: {tmp_path}/kept"):
        parts_of([Plan("sales.py", regressions=tmp_path / "kept")], None, None, Path)


class Started:
    def __init__(self) -> None:
        self.ended = 0

    def close(self) -> None:
        self.ended += 1


def test_a_system_is_started_once_and_ended_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "onceproof.harness.testing.family_test.find_system",
        lambda name: object() if name == "plain" else Started(),
    )
    systems = Systems()
    first = systems.find("spark", ["/library"])
    assert systems.find("spark", ["/library"]) is first
    # What it has started looks for modules where it was told; another family's stand elsewhere.
    second = systems.find("spark", [])
    assert second is not first
    plain = systems.find("plain", [])
    assert systems.find("plain", []) is plain
    systems.close()
    assert [first.ended, second.ended] == [1, 1]  # type: ignore[attr-defined]
    assert systems.find("spark", []) is not second
