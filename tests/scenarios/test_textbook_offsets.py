"""The textbook's walks through offsets and state: hello world with its crash, page views by the hour."""

from __future__ import annotations

import pytest

from onceproof.scenarios.textbook import hello_world, page_views
from tests.scenarios.textbook_output import printed_as_on_flink


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
