"""The textbook's programs with state in rich functions: listed outputs, families, the first lesson."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceproof.engine import Configuration, SinkFunction, StreamExecutionEnvironment
from onceproof.harness.model.family_places import address_of, family_names, load_family
from onceproof.harness.trials.failures import explanation_of
from onceproof.harness.trials.trial import check_family
from onceproof.scenarios.textbook import (
    average_by_list,
    average_by_map,
    average_by_reducing_state,
    average_by_value,
    average_timestamp,
    concatenation,
    count_to_100,
    time_to_live,
)
from onceproof.scenarios.textbook._example_input import ONE_KEY, PAIR
from onceproof.scenarios.textbook.click_source import Click, ClickSource
from tests.conformance import textbook_input
from tests.engine.runtime.test_live_time import Run, WorkingClocks
from tests.patience import PATIENCE_SECONDS
from tests.scenarios.golden import meaning_of
from tests.scenarios.lessons import TEXTBOOK, examined_lesson, passes
from tests.scenarios.textbook_output import Clicks, printed_as_on_flink

GOLDEN = {
    "textbook_average_by_list": "1:09ffbab9c6671931",
    "textbook_average_by_map": "1:09ffbab9c6671931",
    "textbook_average_by_reducing_state": "1:09ffbab9c6671931",
    "textbook_average_by_value": "1:09ffbab9c6671931",
    "textbook_average_timestamp": "1:82bda56cc579c4aa",
    "textbook_concatenation": "1:09ffbab9c6671931",
    "textbook_count_to_100": "1:f64c45257d15889b",
}
LESSON = f"{TEXTBOOK / 'average_by_reducing_state.py'}:lesson"


@pytest.mark.parametrize("name", GOLDEN)
def test_five_seeds_have_their_golden_hashes(name: str) -> None:
    check_family(load_family(name))
    assert meaning_of(load_family(name)) == GOLDEN[name]


@pytest.mark.parametrize("name", GOLDEN)
def test_a_sound_engine_passes_the_rule(name: str) -> None:
    assert passes(name, 15)


def test_250_records_come_to_100_twice(capsys: pytest.CaptureFixture[str]) -> None:
    count_to_100.main()
    assert printed_as_on_flink("count_to_100.py", capsys.readouterr().out) == ["state: 100", "state: 100"]


def test_averages_by_value_begin_with_the_second_record(capsys: pytest.CaptureFixture[str]) -> None:
    average_by_value.main()
    listed = ["(1,4.0)", "(1,5.0)", "(1,4.75)", "(1,4.2)"]
    assert printed_as_on_flink("average_by_value.py", capsys.readouterr().out) == listed


def test_averages_by_list_begin_with_the_third_record(capsys: pytest.CaptureFixture[str]) -> None:
    average_by_list.main()
    assert printed_as_on_flink("average_by_list.py", capsys.readouterr().out) == ["(1,5.0)", "(2,4.0)"]


def test_averages_by_map_are_those_by_list(capsys: pytest.CaptureFixture[str]) -> None:
    average_by_map.main()
    assert printed_as_on_flink("average_by_map.py", capsys.readouterr().out) == ["(1,5.0)", "(2,4.0)"]


def test_a_counter_in_a_field_is_shared_by_the_keys(capsys: pytest.CaptureFixture[str]) -> None:
    average_by_reducing_state.main(["lesson"])
    listed = ["(1,3.0)", "(1,4.0)", "(1,5.0)", "(2,1.0)", "(2,1.2)", "(2,2.0)"]
    assert printed_as_on_flink("average_by_reducing_state.py lesson", capsys.readouterr().out) == listed


def test_a_counter_in_state_belongs_to_its_key(capsys: pytest.CaptureFixture[str]) -> None:
    average_by_reducing_state.main()
    corrected = ["(1,3.0)", "(1,4.0)", "(1,5.0)", "(2,4.0)", "(2,3.0)", "(2,4.0)"]
    assert printed_as_on_flink("average_by_reducing_state.py", capsys.readouterr().out) == corrected


def test_texts_grow_with_every_record_of_their_key(capsys: pytest.CaptureFixture[str]) -> None:
    concatenation.main()
    assert printed_as_on_flink("concatenation.py", capsys.readouterr().out) == [
        "(1,Contains-3.0)",
        "(1,Contains-3.0-5.0)",
        "(1,Contains-3.0-5.0-7.0)",
        "(2,Contains-4.0)",
        "(2,Contains-4.0-2.0)",
        "(2,Contains-4.0-2.0-6.0)",
    ]


def test_a_program_runs_from_its_file() -> None:
    command = [sys.executable, str(TEXTBOOK / "average_by_value.py")]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS).stdout
    assert out.splitlines() == ["(1,4.0)", "(1,5.0)", "(1,4.75)", "(1,4.2)"]


# Clicks.


SIXTEEN = [Click(*click) for click in textbook_input.SIXTEEN_CLICKS]


def test_averages_of_times_run_over_all_clicks(capsys: pytest.CaptureFixture[str]) -> None:
    average_timestamp.main(ClickSource(1000, Clicks(SIXTEEN)))
    # Mary clicks at 1, 2, 4, 5, 7 and then at 8, 10, 11, 13, 14 s; Bob at 3, 6, 9, 12, 15 s.
    assert printed_as_on_flink("average_timestamp.py", capsys.readouterr().out) == [
        "Mary average timestamp: 3800",
        "Mary average timestamp: 7500",
        "Bob average timestamp: 9000",
    ]


def test_clicks_come_at_their_rate() -> None:
    reader = ClickSource(per_second=1, click=Clicks(SIXTEEN)).open_split("clicks", None)
    assert reader.read(10) == []
    assert 0 < reader.retry_ms <= 1000
    assert not ClickSource.is_bounded
    fast = ClickSource(per_second=1_000_000, click=Clicks(SIXTEEN)).open_split("clicks", None)
    clicks = [click for _ in range(40) for click in fast.read(10)]
    assert [timestamp for _, timestamp in clicks] == [1000 * number for number in range(1, 17)]
    assert fast.exhausted


# Time to live.


def test_a_value_that_lives_is_the_first_of_its_key(capsys: pytest.CaptureFixture[str]) -> None:
    time_to_live.main()
    listed = [*3 * ["(1,3.0)"], *3 * ["(2,4.0)"]]
    assert printed_as_on_flink("time_to_live.py", capsys.readouterr().out) == listed


class Pairs(SinkFunction):
    """Keeps what it gets in a list of the test."""

    def __init__(self, pairs: list[object]) -> None:
        self._pairs = pairs

    def __deepcopy__(self, memo: object) -> Pairs:
        return self

    def invoke(self, value: object, context: object) -> None:
        self._pairs.append(value)


def test_a_value_lives_ten_seconds_after_it_was_last_read() -> None:
    clocks, pauses, seen = WorkingClocks(), iter([0, 9_000, 9_000, 10_001, 9_999]), list[object]()

    def later(pair: tuple[int, float]) -> Iterator[tuple[int, float]]:
        clocks.work(next(pauses))
        yield pair

    # Each record is sent by itself, so the pauses lie between the records where the state is.
    options = {"execution.buffer-timeout.interval": "0 ms", "parallelism.default": 1}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    pairs = env.from_collection(ONE_KEY, PAIR).flat_map(later, PAIR)
    time_to_live.build(pairs).add_sink(Pairs(seen))
    Run(env.get_job_graph("time to live"), clocks).run()
    assert seen == [(1, 3.0), (1, 3.0), (1, 3.0), (1, 4.0), (1, 4.0)]


# The first lesson: a counter outside the state.


def test_another_process_finds_a_lesson_by_its_file() -> None:
    assert "lesson_counter_in_a_field" not in family_names()
    assert address_of(load_family(LESSON)) == LESSON
    path, _, name = str(address_of(average_by_reducing_state.lesson)).rpartition(":")
    assert f"{Path(path).resolve()}:{name}" == LESSON


def test_a_counter_outside_the_state_is_found_and_explained() -> None:
    examined = examined_lesson(LESSON, 100)
    assert examined is not None
    assert examined.trial is not None
    assert examined.mistake is None, "the lesson is right as long as nothing fails"
    assert examined.takes is not None
    assert "The failure needs" in examined.takes.sentence
    explanation = explanation_of(examined.trial, examined.cause)
    assert "replaces an expected row" in explanation.sentence
    assert "CounterInAField keeps `self._counter` outside Flink state" in explanation.cause
