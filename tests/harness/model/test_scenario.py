"""The Scenario value: its JSON, both ways, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onceproof.engine import protocol_points
from onceproof.engine.configuration import AUTO_WATERMARK_INTERVAL
from onceproof.harness.model.fault_kinds import MESSAGES_ALONE, POINTS
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.scenario import (
    COORDINATOR,
    Fault,
    Operation,
    Scenario,
    ScenarioError,
    Schedule,
    from_json,
    read_scenario,
    to_json,
)

Make = Callable[..., Scenario]


def test_the_points_of_the_harness_are_those_of_the_engine() -> None:
    assert POINTS == protocol_points.POINTS
    assert COORDINATOR == protocol_points.COORDINATOR


def test_every_fault_kind_has_points_and_all_of_them_exist() -> None:
    for row in FAULTS.values():
        known = (*POINTS, *MESSAGES_ALONE) if row.strikes == "message" else POINTS
        assert row.points
        assert set(row.points) <= set(known)


def test_a_scenario_comes_back_from_json_as_it_was(make_scenario: Make) -> None:
    scenario = make_scenario(
        seed=7,
        parameters={"words": 3, "share": 0.5, "name": "é", "sorted": True},
        records={"a": ((0, "x"), (-5, ("tuple", 1, None, 2.0, True))), "b": (), "c": ((3, None),)},
        faults=(
            Fault("kill_all", "completed", after=3, rescale_to=4),
            Fault("late_write", "snapshotted", delay=9),
        ),
        schedule=Schedule("priority", 5, {"poll": 3}, ((9, "store", -1),), 100, ((4, "deliver count-1/0"),)),
    )
    for indent in (0, 2):
        again = from_json(to_json(scenario, indent))
        assert again == scenario
        assert type(again.records["a"][1][1]) is tuple
    assert to_json(from_json(to_json(scenario))) == to_json(scenario)


KILL = '"kill_all","point":"completed","after":3'


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"kill_all"', '"kill_al"', "unknown value 'kill_al' at faults[0].kind"),
        ('"completed"', '"complete"', "unknown value 'complete' at faults[0].point"),
        ('"seed":null', '"seed":"7"', "expected `int | null`, got `str` at seed"),
        ('"seed":null', '"seed":null,"sed":7', "unknown field `sed`"),
        ('"after":3', '"afer":3', "unknown field `afer` at faults[0]"),
        ('"after":3', '"after":-3', "expected `int` >= 0 at faults[0].after"),
        ('"retained":1,', "", "missing field `retained`"),
        ('[0,"bee"]', '["bee",0]', "expected `int`, got `str` at records[...][0][0]"),
        ('"schedule":{}', '"schedule":{"priorities":{"pol":1}}', "unknown value 'pol' at schedule"),
        ('"parallelism":2', '"parallelism":9', "parallelism of keyed 9 > max_parallelism 8"),
        ('"after":3', '"rescale_to":9', "faults[0]: rescale_to 9 > max_parallelism 8"),
        ('"kill_all"', '"lose_message"', "lose_message does not happen at completed, but at triggered"),
        (KILL, '"late_write","point":"snapshotted"', "faults[0]: late_write needs a delay"),
        (KILL, '"fail_write","point":"snapshotted","rescale_to":2', "rescale_to belongs to kills"),
        (KILL, '"cut_connection","point":"completed"', "faults[0]: cut_connection needs server"),
        ('"after":3', '"server":"kafka"', "faults[0]: kill_all strikes no server and has no server"),
        ('"format_version":1', '"format_version":2', "format version 2 is newer than 1"),
        ('"format_version":1', '"format_version":"1"', "expected `int`, got `str` at format_version"),
        (',"format_version":1', "", "no format_version of 1 or more"),
    ],
)
def test_a_wrong_field_is_refused_in_one_line_that_names_its_place(
    make_scenario: Make, old: str, new: str, said: str
) -> None:
    text = to_json(make_scenario(faults=(Fault("kill_all", "completed", after=3),)))
    assert old in text
    with pytest.raises(ScenarioError) as refused:
        from_json(text.replace(old, new), "night/7.json")
    assert str(refused.value).startswith("night/7.json: ")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "nonsense", "[]", "{}", "null", '"x"', '{"format_version": 1.5}'])
def test_a_text_that_is_no_scenario_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        from_json(text, "x.json")
    assert str(refused.value).startswith("x.json: ")
    assert "\n" not in str(refused.value)


def test_a_truncated_file_is_refused(make_scenario: Make, tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_text(to_json(make_scenario())[:60])
    with pytest.raises(ScenarioError, match=r"cut\.json: not JSON: "):
        read_scenario(path)


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bytes.json"
    path.write_bytes(b'{"format_version": 1, "family": "\xff\xfe"}')
    with pytest.raises(ScenarioError, match=r"bytes\.json: "):
        read_scenario(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"none\.json: cannot be read: No such file"):
        read_scenario(tmp_path / "none.json")


def test_a_parallelism_of_0_follows_that_of_the_keyed_operators(make_scenario: Make) -> None:
    scenario = make_scenario(source_parallelism=0, sink_parallelism=3)
    assert scenario.parallelisms() == (2, 2, 3)
    assert scenario.parallelisms(4) == (4, 4, 3)


def test_a_file_without_a_watermark_interval_has_the_default_of_the_engine(make_scenario: Make) -> None:
    scenario = make_scenario()
    assert "watermark_interval_ms" not in to_json(scenario)
    assert scenario.watermark_interval == AUTO_WATERMARK_INTERVAL.default == 200
    assert from_json(to_json(make_scenario(watermark_interval_ms=7))).watermark_interval == 7


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "operations[0]: a rescale needs a parallelism of 1 or more"),
        ({"parallelism": 9}, "operations[0]: parallelism 9 > max_parallelism 8"),
        ({"parallelism": 2, "claims": True}, "operations[0]: how the job resumes belongs to a stop"),
        ({"parallelism": 2, "state_backend": "rocksdb"}, "operations[0]: how the job resumes belongs to a"),
        ({"parallelism": "2"}, "expected `int`, got `str` at operations[0].parallelism"),
    ],
)
def test_a_wrong_rescale_is_refused_in_one_line(make_scenario: Make, more: dict[str, Any], said: str) -> None:
    rescale = make_scenario(operations=(Operation("rescale", "element", **more),))
    with pytest.raises(ScenarioError) as refused:
        from_json(to_json(rescale), "night/7.json")
    assert str(refused.value).startswith(f"night/7.json: {said}")
    assert "\n" not in str(refused.value)


def test_a_rescale_comes_back_from_json_as_it_was(make_scenario: Make) -> None:
    rescale = make_scenario(operations=(Operation("rescale", "element", "sink-0", parallelism=4),))
    assert from_json(to_json(rescale)) == rescale
    assert rescale.highest_parallelism == 4
