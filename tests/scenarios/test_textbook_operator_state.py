"""The textbook's programs with operator and broadcast state: outputs, families, the lesson of the list."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from onceproof.engine import CheckpointingMode, Configuration, ExternalizedCheckpointRetention, JobClient
from onceproof.harness.model.family import Declared
from onceproof.harness.model.family_places import load_family
from onceproof.harness.trials.failures import explanation_of
from onceproof.harness.trials.trial import check_family
from onceproof.scenarios.textbook import behaviour_patterns, buffering_sink, pairs_kept, pairs_plain
from onceproof.scenarios.textbook._pairs_on_trial import expected_pairs
from onceproof.scenarios.textbook.behaviour_patterns import PacedSource
from onceproof.scenarios.textbook.click_source import CLICK, Click, ClickSource
from tests.patience import PATIENCE_SECONDS
from tests.scenarios.golden import meaning_of
from tests.scenarios.lessons import TEXTBOOK, examined_lesson, passes
from tests.scenarios.textbook_output import Clicks, printed

PAIRS = [(("spark", 3), ("hadoop", 5)), (("hive", 7), ("flume", 9))]
LESSON = f"{TEXTBOOK / 'pairs_plain.py'}:lesson"
COMPARISON = TEXTBOOK / "buffering_sink.py"
SMALL_BUFFER = 89
"""The first seed of the lesson of the comparison whose scenario is small."""
FAMILIES = ("textbook_pairs", "textbook_pairs_in_a_union_list")
CLICKS = [Click("Mary", "./home", 1000 * number) for number in range(25)]


@pytest.mark.parametrize("name", FAMILIES)
def test_five_seeds_have_their_golden_hashes(name: str) -> None:
    check_family(load_family(name))
    assert meaning_of(load_family(name)) == "1:ac3f9d3d8c81e62a"


@pytest.mark.parametrize("name", FAMILIES)
def test_a_sound_engine_passes_the_rule(name: str) -> None:
    assert passes(name, 15)


def test_two_elements_are_printed_together(capsys: pytest.CaptureFixture[str]) -> None:
    pairs_plain.main()
    assert printed(capsys.readouterr().out) == PAIRS


@pytest.mark.parametrize("arguments", [[], ["union"]])
def test_kept_pairs_are_the_same(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    pairs_kept.main(arguments)
    kept = ["((spark,3),(hadoop,5))", "((hive,7),(flume,9))"]
    assert capsys.readouterr().out.splitlines() == kept


def test_an_element_that_is_lost_or_repeated_is_not_accepted() -> None:
    records = {"elements-0": [(0, ("hive", 1)), (1, ("hive", 2)), (2, ("spark", 3)), (3, ("spark", 4))]}
    sound = [("hive", 1, "spark", 3), ("hive", 2, "spark", 4)]
    assert sorted(expected_pairs(records, Declared(sound), 1)) == sound
    assert sorted(expected_pairs(records, Declared(sound[:1]), 1)) == sound
    assert sorted(expected_pairs(records, Declared(sound[:1]), 2)) == sound[:1]
    repeated = [*sound, ("hive", 1, "hive", 1)]
    assert sorted(expected_pairs(records, Declared(repeated), 1)) == sound


# The buffering sink.


def test_the_sink_has_the_settings_of_the_textbook() -> None:
    settings = buffering_sink.environment().get_checkpoint_config()
    assert settings.get_checkpoint_interval() == 10_000
    assert settings.get_checkpointing_mode() == CheckpointingMode.EXACTLY_ONCE
    assert settings.get_min_pause_between_checkpoints() == 500
    assert settings.get_checkpoint_timeout() == 60_000
    assert settings.get_max_concurrent_checkpoints() == 1
    kept = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    assert settings.get_externalized_checkpoint_retention() == kept
    assert settings.is_unaligned_checkpoints_enabled()


def test_clicks_are_written_ten_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    buffering_sink.main(ClickSource(10_000, Clicks(CLICKS)))
    lines = printed(capsys.readouterr().out)
    assert lines[10] == lines[21] == "=========="
    assert [line for line in lines if line != "=========="] == [tuple(click) for click in CLICKS[:20]]


def test_clicks_that_wait_are_in_the_savepoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines: list[str] = []

    def run(values: list[tuple[float, Click]], options: dict[str, str]) -> JobClient:
        env = buffering_sink.environment(Configuration.from_mapping(options))
        source = PacedSource(*[(seconds, tuple(click)) for seconds, click in values])
        buffering_sink.build(env.from_source(source, None, "clicks", CLICK).uid("clicks"))
        return env.execute_async("buffering sink")

    fourteen = [(0.0, click) for click in CLICKS[:14]]
    client = run([*fourteen, (3600.0, CLICKS[14])], {})
    deadline = time.monotonic() + PATIENCE_SECONDS
    while "==========" not in lines and time.monotonic() < deadline:
        time.sleep(0.2)
        lines += capsys.readouterr().out.splitlines()
    savepoint = client.stop_with_savepoint(False, str(tmp_path)).result(PATIENCE_SECONDS)
    lines += capsys.readouterr().out.splitlines()
    assert len(lines) == 11
    six = [(0.0, click) for click in CLICKS[14:20]]
    restored = run([*fourteen, *six], {"execution.state-recovery.path": savepoint})
    restored.get_job_execution_result().result(PATIENCE_SECONDS)
    lines += capsys.readouterr().out.splitlines()
    assert [line for line in lines if line != "=========="] == [str(tuple(click)) for click in CLICKS[:20]]


# Patterns of behaviour.


def test_each_user_matches_the_pattern_in_force(capsys: pytest.CaptureFixture[str]) -> None:
    behaviour_patterns.main(pace_seconds=0.3)
    matches = ["(Alice,(login,pay))", "(Bob,(login,buy))"]
    assert capsys.readouterr().out.splitlines() == matches


# The second lesson: pairs in a plain list.


def test_half_a_pair_in_a_plain_list_is_lost_and_explained() -> None:
    examined = examined_lesson(LESSON, 200)
    assert examined is not None
    assert examined.trial is not None
    assert examined.mistake is None, "the lesson is right as long as nothing fails"
    assert examined.takes is not None
    assert "The failure needs" in examined.takes.sentence
    explanation = explanation_of(examined.trial)
    assert any(said in explanation.sentence for said in ("never became visible", "visible only", "missing"))
    assert any("starts from checkpoint" in line for line in explanation.story)


# The lesson of the comparison: a buffer that is longer than the threshold.


def test_a_buffer_longer_than_the_threshold_is_written_with_the_next_element() -> None:
    written: list[list[int]] = []
    sink = buffering_sink.BufferingSink(2, lambda values: written.append(list(values)))
    sink.waiting.extend([1, 2, 3])
    sink.invoke(4, None)
    assert written == [[1, 2, 3, 4]]
    assert sink.waiting == []
    equal = buffering_sink.ComparingWithEqual(2, lambda values: written.append(list(values)))
    equal.waiting.extend([1, 2, 3])
    equal.invoke(4, None)
    assert len(written) == 1


def test_a_comparison_with_greater_or_equal_passes_the_rule() -> None:
    check_family(load_family(f"{COMPARISON}:corrected"))
    assert passes(f"{COMPARISON}:corrected", 60)


def test_a_buffer_that_is_never_written_again_is_found_and_explained() -> None:
    examined = examined_lesson(f"{COMPARISON}:lesson", 50, first=SMALL_BUFFER)
    assert examined is not None
    assert examined.trial is not None
    assert examined.mistake is None, "the lesson is right as long as nothing fails"
    assert examined.takes is not None
    assert "The failure needs" in examined.takes.sentence
    explanation = explanation_of(examined.trial)
    assert any(said in explanation.sentence for said in ("never became visible", "visible only"))
    parallelism = [int(line.rpartition(" ")[2]) for line in explanation.story if "parallelism" in line]
    assert parallelism[-1] < parallelism[0], "the buffers of several subtasks have come to one"
