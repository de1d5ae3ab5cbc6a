"""The textbook's programs with event-time timers and two inputs: outputs for clicks that are written out."""

from __future__ import annotations

import pytest

from onceproof.scenarios.textbook import full_join, periodic_page_views, window_by_map
from onceproof.scenarios.textbook.click_source import Click, ClickSource
from tests.scenarios.textbook_output import Clicks, printed, watermark_before_each_click

PER_SECOND = 20


def test_the_view_after_a_timer_sets_the_next_one(capsys: pytest.CaptureFixture[str]) -> None:
    users = [("Mary", 1), ("Bob", 2), ("Mary", 5), ("Mary", 12), ("Mary", 13), ("Bob", 25), ("Cary", 60)]
    clicks = Clicks([Click(user, "./home", 1000 * second) for user, second in users])
    periodic_page_views.main(ClickSource(PER_SECOND, clicks), watermark_before_each_click())
    # Mary's timers are due at 11 s, which the view at 12 s passes, and at 23 s. Bob's are due at 12 and 35 s.
    assert printed(capsys.readouterr().out) == [
        "Mary pv: 3",
        "Bob pv: 1",
        "Mary pv: 4",
        "Bob pv: 2",
        "Cary pv: 1",
    ]


def test_windows_by_map_hold_the_clicks_of_each_url(capsys: pytest.CaptureFixture[str]) -> None:
    urls = [("./home", 0), ("./cart", 4_000), ("./home", 9_999), ("./home", 10_000), ("./cart", 31_000)]
    clicks = Clicks([Click("Mary", url, timestamp) for url, timestamp in urls])
    window_by_map.main(ClickSource(PER_SECOND, clicks), watermark_before_each_click())
    lines = printed(capsys.readouterr().out)
    assert sorted(map(str, lines[:2])) == ["('./cart', 1, 0, 10000)", "('./home', 2, 0, 10000)"]
    assert lines[2:] == [("./home", 1, 10_000, 20_000), ("./cart", 1, 30_000, 40_000)]


def test_every_record_joins_all_of_the_other_side(capsys: pytest.CaptureFixture[str]) -> None:
    full_join.main()
    assert sorted(map(str, printed(capsys.readouterr().out))) == [
        "(('a', 'stream-1', 1000), ('a', 'stream-2', 3000))",
        "(('b', 'stream-1', 2000), ('b', 'stream-2', 4000))",
    ]
