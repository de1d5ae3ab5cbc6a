"""The textbook's programs with event-time timers and two inputs: outputs for clicks that are written out."""

from __future__ import annotations

import pytest

from onceproof.scenarios.textbook import full_join, periodic_page_views, window_by_map
from onceproof.scenarios.textbook.click_source import Click, ClickSource
from tests.conformance import textbook_input
from tests.scenarios.textbook_output import Clicks, printed_as_on_flink, watermark_before_each_click

PER_SECOND = 20


def test_the_view_after_a_timer_sets_the_next_one(capsys: pytest.CaptureFixture[str]) -> None:
    clicks = Clicks([Click(*view) for view in textbook_input.VIEWS])
    periodic_page_views.main(ClickSource(PER_SECOND, clicks), watermark_before_each_click())
    assert printed_as_on_flink("periodic_page_views.py", capsys.readouterr().out) == [
        "Mary pv: 3",
        "Bob pv: 1",
        "Mary pv: 4",
        "Bob pv: 2",
        "Cary pv: 1",
    ]


def test_windows_by_map_hold_the_clicks_of_each_url(capsys: pytest.CaptureFixture[str]) -> None:
    clicks = Clicks([Click(*click) for click in textbook_input.CLICKS_ON_TWO_URLS])
    window_by_map.main(ClickSource(PER_SECOND, clicks), watermark_before_each_click())
    lines = printed_as_on_flink("window_by_map.py", capsys.readouterr().out)
    assert sorted(lines[:2]) == ["(./cart,1,0,10000)", "(./home,2,0,10000)"]
    assert lines[2:] == ["(./home,1,10000,20000)", "(./cart,1,30000,40000)"]


def test_every_record_joins_all_of_the_other_side(capsys: pytest.CaptureFixture[str]) -> None:
    full_join.main()
    assert sorted(printed_as_on_flink("full_join.py", capsys.readouterr().out)) == [
        "((a,stream-1,1000),(a,stream-2,3000))",
        "((b,stream-1,2000),(b,stream-2,4000))",
    ]
