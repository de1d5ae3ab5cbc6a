"""The comparison of systems on a page: its table, its bars, and the sentences above them."""

import re
from xml.etree import ElementTree

import msgspec
import pytest

from onceproof.reports.charts import Bar, bars_chart, comparison_charts, scale_of
from onceproof.reports.headline import conclude
from onceproof.reports.junit import junit
from onceproof.reports.render import render
from onceproof.reports.views import arrange


def bars_of(chart):
    """Return by the title of its row the kinds and lengths of the bars of a chart."""
    groups = [
        group for group in ElementTree.fromstring(chart).findall("g") if group.find("title") is not None
    ]
    return {
        group.find("title").text: [(bar.get("class"), float(bar.get("width"))) for bar in group.iter("rect")]
        for group in groups
    }


def chart_of(*values):
    return bars_chart("Cost", [Bar(f"{value}", value, text="x") for value in values], "chart", str)


def test_values_of_one_decade_have_a_scale_from_zero():
    scale = scale_of([2.0, 8.0])
    assert not scale.is_logarithmic
    assert scale.ticks() == (0.0, 8.0)
    (_, half), (_, whole) = (bars[0] for bars in bars_of(chart_of(4.0, 8.0)).values())
    assert half == pytest.approx(whole / 2, abs=0.1)


def test_values_that_span_decades_have_a_logarithmic_scale():
    scale = scale_of([3.0, 4000.0])
    assert scale.is_logarithmic
    assert scale.ticks() == (1.0, 10.0, 100.0, 1000.0, 10000.0)
    steps = [scale.x(10.0 ** (power + 1)) - scale.x(10.0**power) for power in range(4)]
    assert steps == pytest.approx([steps[0]] * 4)


def test_smallest_value_has_a_bar_also_where_it_is_a_power_of_ten():
    lengths = [bars[0][1] for bars in bars_of(chart_of(10.0, 1000.0)).values()]
    assert lengths[0] > 50
    assert lengths[1] > lengths[0]


@pytest.mark.parametrize("values", [(), (0.0,), (0.0, 5.0), (1e-9, 1e9)])
def test_strange_values_stay_inside_of_the_picture(values):
    for bars in bars_of(chart_of(*values)).values():
        assert all(0 < length <= 460 for _, length in bars)


def test_recovery_has_a_bar_for_the_median_and_a_pale_one_for_the_worst(made):
    recovery, cost = comparison_charts(made.comparison().comparison, "chart")
    rows = bars_of(recovery.chart)
    assert rows["simulated: not measured"] == []
    [(pale, worst), (dark, median)] = rows["spark: 4.1 s, worst 19 s"]
    assert (pale, dark) == ("total", "alone")
    assert worst > median
    assert recovery.note.endswith("on a logarithmic scale; 1 row not measured.")
    assert list(bars_of(cost.chart)) == ["simulated: 31.3 ms", "local: 3,391 ms", "spark: 20,100 ms"]


def test_page_of_a_comparison_starts_with_the_systems(made):
    text = render(made.comparison())
    sections = re.findall(r'<section id="([a-z-]+)"', text)
    assert sections == ["comparison", "results", "failures", "facts"]
    assert "word_count on spark: exactly once, lost" in text
    assert "2 of 20 failed" in text


def test_property_that_no_system_was_asked_has_no_column(made):
    page = arrange(made.comparison())
    assert page.properties == ("exactly_once", "liveness", "determinism")
    assert [name for name, _, _ in page.table] == ["simulated", "local", "spark"]
    assert [cells[-1] is None for _, _, cells in page.table] == [False, True, True]


def test_headline_of_a_comparison_names_families_and_systems(made):
    passed = made.comparison(failures=())
    families = [msgspec.structs.replace(each, failed=0, properties=()) for each in passed.families]
    headline = conclude(msgspec.structs.replace(passed, families=tuple(families)))
    assert headline.sentence.startswith("60 scenarios in 1 family on 3 systems: nothing lost")
    assert headline.thin[0] == "under 50 scenarios in each of 3 rows"


def test_junit_keeps_the_failures_of_systems_apart(made):
    root = ElementTree.fromstring(junit(made.comparison()))
    suites = {suite.get("name"): suite.get("failures") for suite in root}
    assert suites["word_count on spark"] == "1"
    assert suites["word_count on local"] == "0"
