"""The textbook's walks through offsets and state: hello world with its crash, page views by the hour."""

from __future__ import annotations

import pytest

from onceproof.harness.model.family_places import load_family
from onceproof.harness.trials.failures import explanation_of
from onceproof.harness.trials.trial import check_family
from onceproof.scenarios.textbook import hello_world, page_views
from tests.scenarios.lessons import TEXTBOOK, examined_lesson
from tests.scenarios.textbook_output import printed_as_on_flink

LESSON = f"{TEXTBOOK / 'page_views.py'}:lesson"


def test_words_after_the_checkpoint_are_read_again(capsys: pytest.CaptureFixture[str]) -> None:
    hello_world.main()
    assert capsys.readouterr().out.splitlines() == [
        "reads from offset 0",
        "(hello,1)",
        "(world,1)",
        "(hello,2)",
        # Here checkpoint 1 is complete.
        "(world,2)",
        "(hello,3)",
        # Here the job crashes.
        "reads from offset 3",
        "(world,2)",
        "(hello,3)",
        "(hello,4)",
    ]


def test_views_of_five_partitions_are_counted_by_the_hour(capsys: pytest.CaptureFixture[str]) -> None:
    page_views.main()
    lines = printed_as_on_flink("page_views.py", capsys.readouterr().out)
    assert sorted(lines[:2]) == ["(app1,50)", "(app2,25)"]
    assert lines[2:] == ["(app1,10)"]


def test_a_count_that_is_too_high_after_a_restart_is_found_and_explained() -> None:
    check_family(load_family(LESSON))
    examined = examined_lesson(LESSON, 50, first=8)
    assert examined is not None
    assert examined.trial is not None
    assert examined.mistake is None, "the lesson is right as long as nothing fails"
    assert examined.takes is not None
    assert "The failure needs" in examined.takes.sentence
    explanation = explanation_of(examined.trial)
    assert "does not follow from the input" in explanation.sentence
    assert any("starts from checkpoint" in line for line in explanation.story)
