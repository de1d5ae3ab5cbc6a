"""The space-time diagram: valid, complete, legible and deterministic."""

import re
from itertools import combinations
from xml.etree import ElementTree

import msgspec
import pytest

from onceproof.reports.diagram import Callout, draw
from onceproof.reports.diagram_layout import NARROWEST_STEP, Space, TimeAxis
from onceproof.reports.diagram_lessons import lessons
from onceproof.reports.text import width
from onceproof.reports.trace import Trace

HOSTILE = "<script>alert('k1')</script>&\"\x00\u202e北京"


def trace_of(**parts):
    return msgspec.convert(parts, Trace)


def arrow(kind, a, b, to=None, **others):
    return {"kind": kind, "from": [a, b], "to": to, **others}


def parsed(drawn):
    return ElementTree.fromstring(str(drawn.body)), ElementTree.fromstring(str(drawn.lanes))


def by_class(root, name):
    return [element for element in root.iter() if name in element.get("class", "").split()]


def titles(root):
    return [element.text for element in root.iter("title")]


@pytest.fixture
def long_trace(made):
    return made.trace(records=60, keys=["k1", "k2", "k3"], seed=2, kill_at=150, rescale_to=3, interval=40)


def test_diagram_draws_all_elements_of_the_trace(made):
    trace = made.mock_trace()
    body, lanes = parsed(draw(trace, "x"))
    assert [text.text for text in lanes.iter("text")] == list(trace.lanes)
    paths = [path for group in by_class(body, "arrows") for path in group if path.get("class") != "miss"]
    assert len(paths) == len(trace.arrows)
    assert len(by_class(body, "miss")) == 2
    circles = list(by_class(body, "marks")[0].iter("circle"))
    assert len(circles) == len(trace.marks)
    letters = [text.text for text in by_class(body, "marks")[0].iter("text")]
    assert sorted(letters) == sorted("TwwPPCRwTPPCV")
    crosses = by_class(body, "cross")
    assert len(crosses) == 1
    assert crosses[0].get("d").count("l12 12") == 6
    words = [text.text for text in body.iter("text")]
    assert {"attempt 1.1", "attempt 1.2", "parallelism 2, restored from checkpoint 1"} <= set(words)
    assert {"k1", "k1=1", "k1=2", "kill all at notified"} <= set(words)


def test_message_kinds_have_arrowheads_and_no_inline_colour(made):
    body, _ = parsed(draw(made.mock_trace(), "x"))
    heads = {marker.get("id") for marker in body.iter("marker")}
    used = {
        path.get("marker-end")[5:-1]
        for group in by_class(body, "arrows")
        for path in group
        if path.get("marker-end")
    }
    assert used == heads == {"x-record", "x-barrier", "x-acknowledge", "x-notify"}
    assert not re.search(r'(fill|stroke|style)="', str(draw(made.mock_trace(), "x").body))


def test_lost_message_ends_in_a_cross_without_an_arrowhead():
    lanes = ["coordinator", "count-0", "sink-0"]
    cases = [
        arrow("notify", "coordinator", 2, ["sink-0", 4], lost=True),
        arrow("notify", "coordinator", 2, None, lost=True, toward="sink-0"),
        arrow("acknowledge", "sink-0", 2, None),
        arrow("record", "sink-0", 2, None),
    ]
    for case in cases:
        drawn = draw(trace_of(lanes=lanes, arrows=[case], steps=9), "x")
        body, _ = parsed(drawn)
        assert drawn.has_losses
        assert len(by_class(body, "miss")) == 1
        assert "marker-end" not in str(drawn.body)
        assert "never arrived" in " ".join(title for title in titles(body) if title)


def boxes_of_labels(body):
    boxes = []
    for group in [*by_class(body, "labels"), *by_class(body, "kills")]:
        for text in group.iter("text"):
            wide = width(text.text, 11)
            x, y = float(text.get("x")), float(text.get("y"))
            left = {"start": x, "end": x - wide, "middle": x - wide / 2}[text.get("text-anchor")]
            boxes.append((left, y - 9, left + wide, y + 2, text.text))
    for circle in by_class(body, "marks")[0].iter("circle"):
        x, y, r = (float(circle.get(name)) for name in ("cx", "cy", "r"))
        boxes.append((x - r + 1, y - r + 1, x + r - 1, y + r - 1, "mark"))
    return boxes


def test_labels_do_not_overlap_labels_or_marks(made, long_trace):
    for trace in (made.mock_trace(), long_trace):
        body, _ = parsed(draw(trace, "x"))
        boxes = boxes_of_labels(body)
        labels = [box for box in boxes if box[4] != "mark"]
        assert len(labels) > 10
        for one, other in combinations(boxes, 2):
            if one[4] == other[4] == "mark":
                continue
            apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
            assert apart, (one, other)


def test_long_trace_stays_legible_and_small(long_trace):
    assert len(long_trace.arrows) > 300
    drawn = draw(long_trace, "x")
    body, _ = parsed(drawn)
    assert len(str(drawn.body)) < 110_000
    assert TimeAxis(range(long_trace.steps)).unit >= NARROWEST_STEP
    records = sum(arrow.kind == "record" for arrow in long_trace.arrows)
    shown = [text for group in by_class(body, "labels") for text in group.iter("text")]
    labelled = sum(text.get("class") == "record" for text in shown)
    assert labelled + drawn.unlabelled == records
    assert labelled > records / 2
    # The strips for printing cover the diagram without a gap.
    assert len(drawn.strips) > 1
    assert sum(wide for _, wide in drawn.strips) == pytest.approx(drawn.body_width)


def test_crowded_diagram_omits_labels_but_keeps_tooltips():
    arrows = [arrow("record", "a", 1, ["b", 2], label=f"customer-{index}") for index in range(40)]
    drawn = draw(trace_of(lanes=["a", "b"], arrows=arrows, steps=3), "x")
    assert drawn.unlabelled > 20
    tooltips = " ".join(title for title in titles(parsed(drawn)[0]) if title)
    assert all(f"customer-{index}:" in tooltips for index in range(40))


def test_hostile_texts_in_a_diagram_stay_text():
    drawn = draw(
        trace_of(
            lanes=["coordinator", HOSTILE],
            arrows=[arrow("record", "coordinator", 0, [HOSTILE, 3], label=HOSTILE)],
            marks=[{"kind": "visible", "lane": HOSTILE, "step": 3, "label": HOSTILE}],
            kills=[{"step": 5, "lanes": [HOSTILE], "label": HOSTILE}],
            attempts=[{"name": HOSTILE, "from": 0, "to": None, "parallelism": 1}],
            steps=9,
        ),
        "x",
    )
    for part in (drawn.body, drawn.lanes):
        root = ElementTree.fromstring(str(part))
        assert not list(root.iter("script"))
        assert "<script" not in str(part)
        assert "\x00" not in str(part)
        assert "\u202e" not in str(part)
    assert "北京" in "".join(titles(parsed(drawn)[0]))


def test_long_lane_names_are_cut_and_complete_in_the_tooltip():
    name = "enrich-with-customer-master-data-from-the-warehouse-" + "x" * 40 + "-13"
    drawn = draw(trace_of(lanes=["coordinator", name], steps=3), "x")
    _, lanes = parsed(drawn)
    assert drawn.lanes_width < 260
    shown = [text.text for text in lanes.iter("text")]
    assert shown[1].endswith("-13")
    assert "…" in shown[1]
    assert name in titles(lanes)


def test_empty_trace_and_single_step_can_be_drawn():
    parsed(draw(Trace(), "x"))
    one = draw(trace_of(lanes=["a"], marks=[{"kind": "trigger", "lane": "a", "step": 5}]), "x")
    assert len(list(parsed(one)[0].iter("circle"))) == 1


def test_drawing_is_deterministic_and_ids_have_the_prefix(made, long_trace):
    callouts = [Callout(1, ("source-0", 3)), Callout(2, ("source-0", 3), ("count-1", 9))]
    assert draw(long_trace, "x", callouts) == draw(long_trace, "x", callouts)
    ids = re.findall(r'\bid="([^"]+)"', str(draw(made.mock_trace(), "left").body))
    assert ids
    assert all(name.startswith("left-") for name in ids)


def test_long_gap_on_the_time_axis_is_shortened():
    axis = TimeAxis([0, 1, 2, 10_000, 10_001])
    assert axis.width < 1200
    assert len(axis.cuts) == 1
    assert axis.at(2) < axis.cuts[0] < axis.at(10_000)
    ticks = axis.ticks()
    assert len(ticks) < 30
    assert [x for _, x in ticks] == sorted(x for _, x in ticks)


def test_time_axis_is_monotonic():
    axis = TimeAxis([3, 5, 9, 40, 41])
    places = [axis.at(step) for step in range(50)]
    assert places == sorted(places)
    assert axis.at(9) < axis.at(20) < axis.at(40)


def test_occupied_boxes_are_found_across_columns():
    space = Space()
    assert space.take_if_free(60, 0, 300, 10)
    assert not space.take_if_free(290, 5, 310, 8)
    assert space.take_if_free(300, 0, 310, 10)
    space.take_line(0, 100, 200, 100)
    assert space.overlaps(50, 90, 80, 110) >= 3
    assert space.is_free(50, 110, 80, 120)


def test_lessons_describe_the_events_of_the_trace(made):
    trace = made.trace(records=9, keys=["k1", "k2"], seed=4, kill_at=38, rescale_to=3, interval=24)
    found = lessons(trace)
    assert [lesson.number for lesson in found] == list(range(1, len(found) + 1))
    assert any("killed" in lesson.title for lesson in found)
    text = " ".join(lesson.text for lesson in found)
    assert "parallelism 3 instead of 2" in text
    assert "restores checkpoint 1" in text
    assert "At step 38" in text
    body, _ = parsed(draw(trace, "x", [lesson.callout for lesson in found]))
    numbers = [text.text for text in by_class(body, "callouts")[0].iter("text")]
    assert numbers == [str(lesson.number) for lesson in found]


def test_lessons_omit_events_that_did_not_happen(made):
    quiet = made.trace(records=4, keys=["k1"], seed=1, kill_at=-1)
    assert not any("killed" in lesson.title for lesson in lessons(quiet))
    assert lessons(Trace()) == ()
