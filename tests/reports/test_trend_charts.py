"""The trend over nights: a column per night with a sign for its verdict, and the figures as lines."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from onceproof.reports.model import Night
from onceproof.reports.render import render
from onceproof.reports.trend_charts import LEAST_SPREAD, lines_of, night_text, trend_chart


def night(number=1, **changes):
    settings = {"started": f"2026-11-{number:02d} 02:17", "scenarios": 4000, "seconds": 50.0}
    return Night(**(settings | changes))


FAILED = {"status": "failed", "failed": 1234, "known": 34, "broke": ("word_count: exactly once, lost (new)",)}
KNOWN = {"status": "known", "failed": 35, "known": 35}


def columns(nights):
    root = ElementTree.fromstring(trend_chart(nights, "trend"))
    groups = [group for group in root.findall("g") if group.find("rect") is not None]
    return [(group.get("class"), group.find("text").text, group.find("title").text) for group in groups]


@pytest.mark.parametrize(
    ("changes", "tone", "sign", "expected"),
    [
        ({}, "good", "✓", "4,000 scenarios, passed"),
        (
            FAILED,
            "bad",
            "✕1.2k",
            "failed, 1,234 scenarios failed, 34 of them known: word_count: exactly once",
        ),
        ({"status": "failed"}, "bad", "✕", "4,000 scenarios, failed"),
        (KNOWN, "warn", "!35", "known failures only, 35 scenarios failed"),
        ({"status": "gaps"}, "good", "✓!", "passed, with a gap"),
        ({"status": "interrupted", "scenarios": 7}, "idle", "–", "7 scenarios, interrupted"),
        ({"status": "unheard of"}, "idle", "–", "unheard of"),
    ],
)
def test_night_has_a_sign_a_colour_and_a_text(changes, tone, sign, expected):
    [(drawn, text, title)] = columns([night(**changes)])
    assert (drawn, text) == (tone, sign)
    assert expected in title == night_text(night(**changes))


@pytest.mark.parametrize("count", [1, 2, 3, 5, 12, 30, 60])
def test_labels_of_the_trend_do_not_overlap(count):
    root = ElementTree.fromstring(trend_chart([night(status="failed", failed=99999)] * count, "trend"))
    wide = float(root.get("width"))
    labels = [text for group in root.findall("g") if group.get("class") == "labels" for text in group]
    places = [float(text.get("x")) for text in labels]
    assert [text.text for text in labels] == ["2026-11-01", "tonight"][-min(count, 2) :]
    # A date is about 60 pixels wide, "tonight" 46.
    assert count == 1 or places[1] - 23 > places[0] + 60
    assert places[-1] + 23 < wide
    signs = [
        float(group.find("text").get("x")) for group in root.findall("g") if group.find("rect") is not None
    ]
    # And "✕100k" about 34.
    assert all(right - left >= 34 for left, right in pairwise(signs))


def test_description_of_the_trend_counts_the_verdicts():
    text = trend_chart([night(), night(**FAILED), night(**KNOWN), night(**FAILED)], "trend")
    assert "4 nights, 2 failed, 1 with known failures only." in text
    assert "2 nights, none of them failed." in trend_chart([night(), night()], "trend")


def test_figure_becomes_a_line_with_its_second_night():
    assert lines_of([night()], "line") == ()
    nights = [
        night(1, records_replayed=9.0, mutants_tried=43, mutants_killed=43),
        night(2, records_replayed=None, mutants_tried=0),
        night(3, records_replayed=12.0, mutants_tried=40, mutants_killed=30, scenarios=6000),
    ]
    speed, replayed, caught = lines_of(nights, "line")
    assert (speed.name, speed.tonight, speed.text) == (
        "scenarios per second",
        "120",
        "from 80 to 120 in 3 nights",
    )
    assert (replayed.tonight, replayed.text) == ("12", "from 9 to 12 in 2 nights")
    assert (caught.tonight, caught.text) == ("75 %", "from 75 % to 100 % in 2 nights")
    # A figure that tonight lacks is not drawn.
    assert len(lines_of([*nights, night(4)], "line")) == 1


def heights(values):
    [line] = lines_of([night(scenarios=0, records_replayed=value) for value in values], "line")
    path = re.search(r'class="course" d="M([^"]*)"', line.chart)[1].split()
    return [float(y) for y in path[1::2]]


def test_small_changes_look_small():
    low, high = heights([100.0, 101.0])
    assert 0 < low - high < 48 * 0.01 / LEAST_SPREAD + 0.2
    assert heights([0.0, 0.0]) == heights([5.0, 5.0])
    bottom, top = heights([10.0, 90.0])
    assert (bottom, top) == (60.0, 12.0)


def test_first_night_has_no_trend_chart(made):
    text = render(made.report(nights=(night(),)))
    assert "This is the first night of the history" in text
    assert "trend-chart" not in text
    assert 'id="trend"' not in render(made.report(nights=()))


def test_known_new_and_old_failures_are_distinguished(made):
    failures = [
        made.failure(),
        made.failure(anomaly="phantom", first_seen="2026-11-18", nights_seen=2, nights_before=9),
        made.failure(anomaly="duplicated", known=True, known_since="2026-11-01", known_why="ISSUE-12"),
    ]
    text = " ".join(re.sub(r"<[^>]*>", " ", render(made.report(failures))).split())
    assert re.search(r"exactly once, lost new", text)
    assert re.search(r"exactly once, phantom since 2026-11-18", text)
    assert re.search(r"exactly once, duplicated known", text)
    assert "in 2 of 9 earlier nights, first on 2026-11-18" in text
    assert "since 2026-11-01: ISSUE-12" in text
