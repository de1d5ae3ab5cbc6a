"""The page: well-formed, self-contained, accessible, and safe for hostile data."""

import base64
import hashlib
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from onceproof.reports.charts import distribution_text
from onceproof.reports.model import Report, encode
from onceproof.reports.render import TEMPLATES, read, render, write

VOID = {"meta", "link", "br"}
HOSTILE = (
    "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7*7 }}\x00\u202e&amp;</style></svg>北京"
)


class Page(HTMLParser):
    """The elements of a page, with a check that they nest."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.open, self.texts, self.faults = [], [], [], []
        self.feed(text)
        self.close()
        self.faults += [f"never closed: {tag}" for tag in self.open]

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        names = [name for name, _ in attributes]
        if len(names) != len(set(names)):
            self.faults.append(f"attribute twice: {tag} {names}")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            self.faults.append(f"</{tag}> closes {self.open[-3:]} at {self.getpos()}")
        else:
            self.open.pop()

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def hostile_report(report):
    """Return a report with hostile text in all free fields."""
    plain = msgspec.to_builtins(report)
    words = {"kind", "mark", "effect"}

    def poison(value, key=""):
        if isinstance(value, dict):
            return {name: poison(member, name) for name, member in value.items()}
        if isinstance(value, list | tuple):
            return [poison(member, key) for member in value]
        return HOSTILE if isinstance(value, str) and key not in words else value

    return msgspec.convert(poison(plain), Report)


def hostile_kinds(report):
    """Return the report with hostile kinds in the coverage, which are free texts too."""
    cells = tuple(msgspec.structs.replace(cell, kind=HOSTILE) for cell in report.coverage.cells[:3])
    return msgspec.structs.replace(report, coverage=msgspec.structs.replace(report.coverage, cells=cells))


@pytest.fixture(scope="module")
def reports(made):
    long = made.trace(records=60, keys=["k1", "k2", "k3"], seed=2, kill_at=150, rescale_to=3, interval=40)
    return {
        "empty": Report(),
        "passed": made.report(),
        "failed": made.report([made.failure()]),
        "many": made.report([made.failure(known=index % 2 == 0) for index in range(30)]),
        "bare": made.report([made.failure(trace=None, records=(), rows=(), story=(), shrinking=None)]),
        "long": made.report([made.failure(trace=long)]),
        "gap": made.report(mutants=made.mutants(True), interrupted="Interrupted"),
        "broken": made.report(real_inputs=(made.flights(error="flights.csv:7: no carrier"),)),
        "compared": made.comparison(),
        "hostile": hostile_kinds(
            hostile_report(made.report([made.failure()], interrupted="x", problems=("x",)))
        ),
        "hostile comparison": hostile_report(made.comparison()),
    }


NAMES = [
    "empty",
    "passed",
    "failed",
    "many",
    "bare",
    "long",
    "gap",
    "broken",
    "compared",
    "hostile",
    "hostile comparison",
]


@pytest.fixture(scope="module")
def pages(reports):
    """Return the text and the elements of the page of each report."""
    texts = {name: render(reports[name]) for name in NAMES}
    return {name: (text, Page(text)) for name, text in texts.items()}


@pytest.mark.parametrize("name", NAMES)
def test_page_is_well_formed(pages, name):
    _, page = pages[name]
    assert page.faults == []
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.elements:
        for reference in (attributes.get("aria-labelledby") or "").split():
            assert reference in ids
        link = attributes.get("href") or ""
        if link.startswith("#"):
            assert link[1:] in ids
    assert len(page.all("h1")) == 1
    assert len(page.all("main")) == 1


@pytest.mark.parametrize("name", NAMES)
def test_page_needs_no_network(pages, name):
    text, page = pages[name]
    for tag, attributes in page.elements:
        assert tag not in {"iframe", "img", "object", "embed", "base", "form", "audio", "video", "source"}
        assert "src" not in attributes
        assert "srcset" not in attributes
        if "href" in attributes:
            assert attributes["href"].startswith("#") or attributes["href"] == "data:,"
    style = re.search(r"<style>(.*?)</style>", text, re.S)[1]
    assert "@import" not in style
    assert "url(" not in style
    assert "@font-face" not in style
    assert "http" not in re.sub(r"http-equiv", "", text)
    for target in re.findall(r"url\(([^)]*)\)", text):
        assert target.startswith("#")


@pytest.mark.parametrize("name", NAMES)
def test_security_policy_allows_only_the_script_of_the_page(pages, name):
    text, page = pages[name]
    scripts = re.findall(r"<script\b[^>]*>(.*?)</script>", text, re.S)
    assert len(scripts) == len(re.findall(r"<script\b", text, re.I)) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    policy = next(attributes["content"] for attributes in page.all("meta") if "http-equiv" in attributes)
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    for _, attributes in page.elements:
        assert not [attribute for attribute in attributes if attribute.startswith("on")]


@pytest.mark.parametrize("name", ["hostile", "hostile comparison"])
def test_hostile_texts_are_shown_and_never_become_markup(pages, name):
    text, page = pages[name]
    assert "<img" not in text
    assert "{{ 7*7 }}" in page.text
    assert "<script>alert(1)</script>" in page.text
    assert "&amp;" in page.text
    assert "\x00" not in text
    assert "\u202e" not in text
    assert "\\u202e" in page.text
    assert "北京" in page.text


@pytest.mark.parametrize("name", NAMES)
def test_pictures_are_valid_and_have_descriptions(pages, name):
    text, _ = pages[name]
    pictures = re.findall(r"<svg\b.*?</svg>", text, re.S)
    assert pictures
    for picture in pictures:
        root = ElementTree.fromstring(picture)
        if root.get("role") == "img":
            assert root.find("title").text
            assert root.find("desc").text
        else:
            assert root.get("aria-hidden") == "true" or 'class="strips" aria-hidden="true"' in text


@pytest.mark.parametrize("name", NAMES)
def test_tables_have_captions_and_scoped_headers(pages, name):
    _, page = pages[name]
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(attributes.get("scope") in ("col", "row") for attributes in page.all("th"))
    assert all(attributes.get("type") == "button" for attributes in page.all("button"))
    html = page.all("html")
    assert html == [{"lang": "en"}]


def test_failed_report_starts_with_the_failure(reports):
    text = render(reports["failed"])
    page = Page(text)
    assert "<title>Failed" in text
    replay = text.index("onceproof replay 8273645120938 --family word_count")
    assert replay < text.index('class="tiles"') < text.index('id="failures"') < text.index('id="results"')
    for text in (
        "1 finding, in 3 of 12,000 scenarios.",
        "3 of 5,200 failed",
        "Split Offset Value Time",
        "onceproof explain failures/word_count-3f9a1c.json",
        "Row (k1, 1) was prepared for checkpoint 1, which completed, but never became visible.",
        "sink-1 died before the commit notification",
        "82 → 2 records 6 → 1 fault 228 → 2 schedule choices",
        "391 runs",
        "− lost (k1, 1) absent",
        "= equal (k1, 2) (k1, 2)",
        "step 20: commit of sink-1-1 expected on restore, not seen",
        "What it takes. 1 of 3 decisions matters: without it every property holds.",
        "matters kill all at notified of checkpoint 1",
        "changes the failure that the job then runs with parallelism 3; without it: fencing, zombie commit",
        "does not matter writes of snapshots wait for all other steps",
        "everything is killed before either sink learns of it",
        "consistent cut and no leaks",
    ):
        assert text in page.text, text


def test_passing_report_shows_all_sections_as_passed(reports):
    text = render(reports["passed"])
    page = Page(text)
    assert "Every record exactly once" in page.text
    assert 'class="verdict good"' in text
    assert 'id="failures"' not in text
    results = text[text.index('id="results"') : text.index('id="real"')]
    assert "bad" not in results
    assert results.count(" passed</span></td>") == 21
    for text in (
        "All 55 pairs of kind and point fired",
        "All 8 were caught",
        "Equal to the oracle, row by row: all 336,776 rows",
        "2 → 3 rescaled",
        "agree on all 12,000 scenarios",
        "4,000 scenarios: half need at most",
        "The checkpoint interval drives this cost most, with a part in 70% of all differences.",
        "In records, between the checkpoint that was restored and the kill; 27.3 on average.",
        "Q² 0.83 of at most 1. Chance causes 10% of the variance.",
        "Q² 0.31 of at most 1; the chart needs at least 0.50",
        "This cost is the same in every scenario: 0 steps.",
        "2,000 scenarios: 500 parameter settings with 4 scenarios each; seed 7",
        "onceproof campaign --seed 20261120 --max-time 60",
    ):
        assert text in page.text, text


def test_bars_are_drawn_only_for_explained_costs(made):
    text = render(made.report())
    assert text.count('class="chart influence"') == 1
    chart = text[text.index('class="chart influence"') :].partition("</svg>")[0]
    # The longest bar comes first, and its title has the numbers.
    assert (
        chart.index("checkpoint interval") < chart.index("size of the buffers") < chart.index("parallelism")
    )
    assert "checkpoint interval: 61% alone, 70% in total; 14 records at 34 ms, 41 at 146 ms" in chart
    assert 'id="sensitivity"' not in render(made.report(sensitivity=()))
    failed = Page(render(made.report(sensitivity=(made.sensitivity(failed=3),))))
    assert "3 scenarios failed; the costs leave failed scenarios out." in failed.text


def test_untested_decisions_are_replaced_by_the_list_of_faults(made):
    page = Page(render(made.report([made.failure(takes="", decisions=())])))
    assert "Fault kill all at notified of checkpoint 1" in page.text
    assert "What it takes" not in page.text


def test_unfired_faults_and_surviving_mutants_are_marked(made):
    coverage = made.coverage({("kill_all", "aligned")})
    page = Page(render(made.report(coverage=coverage, mutants=made.mutants(True))))
    assert "1 of 55 never fired" in page.text
    assert len([tag for tag in page.all("td") if "never" in (tag.get("class") or "")]) == 1
    assert "1 of 8 survived: old-acknowledgement" in page.text
    assert "Passed" not in page.text


def test_planted_bugs_that_were_not_shrunk_have_no_column_for_it(made):
    mutants = made.mutants()
    assert "Shrunk to" in Page(render(made.report(mutants=mutants))).text
    plain = tuple(msgspec.structs.replace(each, shrunk=None) for each in mutants)
    assert "Shrunk to" not in Page(render(made.report(mutants=plain))).text


def test_many_planted_bugs_are_folded_unless_one_survived(made):
    def is_open(mutants):
        folds = Page(render(made.report(mutants=mutants))).all("details")
        (of_bugs,) = [attributes for attributes in folds if attributes.get("class") == "bugs"]
        return "open" in of_bugs

    many = 2 * made.mutants()
    assert not is_open(many)
    assert is_open(made.mutants())
    assert is_open(2 * made.mutants(True))


def test_a_cost_is_said_in_a_whole_sentence(reports):
    cost = msgspec.structs.replace(
        reports["passed"].costs[0], count=3, median=2.0, percentile_95=4.0, maximum=79.0, unit="records"
    )
    said = distribution_text(msgspec.structs.replace(cost, note="in which the job restarted"))
    assert said == (
        "3 scenarios in which the job restarted: half need at most 2 records, 19 of 20 at most 4, and the"
        " worst 79."
    )


def test_empty_sections_have_a_text(reports):
    page = Page(render(reports["empty"]))
    for text in (
        "Nothing ran",
        "No generated scenarios in this run",
        "No faults were counted",
        "No planted bugs were measured",
        "No recovery was measured",
    ):
        assert text in page.text
    assert "None" not in page.text
    assert "none failed" not in page.text


def test_new_failures_come_first_and_long_lists_are_cut_with_a_count(made):
    known = made.failure(known=True, family="page_views")
    page = Page(render(made.report([known, made.failure()])))
    assert page.text.index("word_count: exactly once") < page.text.index("page_views: exactly once")
    text = render(made.report([made.failure(seed=index) for index in range(300)]))
    assert "300 findings" in text
    assert len(text) < 2_000_000
    rows = made.failure().rows * 500
    assert "more rows in report.json" in render(made.report([made.failure(rows=rows)]))


def test_equal_reports_give_equal_bytes_in_any_process(reports, tmp_path):
    report = reports["long"]
    (tmp_path / "report.json").write_bytes(encode(report))
    program = (
        "import sys, pathlib; from onceproof.reports.render import read, render;"
        "sys.stdout.buffer.write(render(read(pathlib.Path(sys.argv[1]))).encode())"
    )
    root = Path(TEMPLATES).parent.parent
    pages = {
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path)],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert pages == {render(report).encode()}


def test_page_and_report_json_are_written_to_one_folder(reports, tmp_path):
    path = write(reports["failed"], tmp_path / "new" / "folder")
    assert path.name == "index.html"
    assert path.read_text(encoding="utf-8") == render(reports["failed"])
    assert read(path.parent) == reports["failed"]
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["index.html", "report.json"]


def test_unwritable_folder_raises_an_os_error(reports, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        write(reports["empty"], tmp_path / "file" / "out")


def test_pages_stay_small(reports):
    sizes = {name: len(render(report)) for name, report in reports.items()}
    assert sizes["empty"] < 40_000
    assert sizes["passed"] < 150_000
    assert sizes["long"] < 260_000


def luminance(colour):
    channels = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_and_lines_have_enough_contrast(scheme):
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    blocks = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in style.split("@media")[:2]]
    colours = blocks[0] if scheme == "light" else blocks[0] | blocks[1]
    texts = ["ink", "muted", "link", "good", "bad", "warn"]
    grounds = ["page", "panel", "raised", "attempt", "attempt-odd"]
    pairs = [(text, ground, 4.5) for text in texts for ground in grounds]
    pairs += [(name, f"{name}-ground", 4.5) for name in ("good", "bad", "warn")]
    lines = ["record", "barrier", "acknowledge", "notify", "bad", "quiet"]
    pairs += [(line, ground, 3.0) for line in lines for ground in ("attempt", "attempt-odd")]
    for text, ground, least in pairs:
        assert contrast(colours[text], colours[ground]) >= least, (text, ground)


def test_wide_table_does_not_widen_the_page_by_its_hidden_texts():
    """A box clips an absolute position only if it is positioned itself."""
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    rules = dict(re.findall(r"^(\.hidden|\.scroll) \{ (.*?) \}", style, re.MULTILINE))
    assert "position: absolute" in rules[".hidden"]
    assert {"position: relative", "overflow-x: auto"} <= {
        each.strip() for each in rules[".scroll"].split(";")
    }


def test_reports_import_no_other_package():
    for module in TEMPLATES.parent.glob("*.py"):
        source = module.read_text(encoding="utf-8")
        assert not re.search(r"^\s*(from|import) (engine|harness|scenarios)\b", source, re.M), module.name


def test_json_of_the_model_is_plain(made):
    plain = json.loads(encode(made.report([made.failure()])))
    assert plain["failures"][0]["shrinking"]["after"] == {"records": 2, "faults": 1, "schedule": 2}
    assert plain["failures"][0]["records"][1] == {"split": "source-0", "offset": 1, "value": ["k1"]}
    assert set(plain["costs"][0]["bins"][0]) == {"low", "high", "count"}


def test_page_answers_the_questions_of_a_reader_in_their_order(made):
    report = made.report([made.failure()])
    cells = (msgspec.structs.replace(report.coverage.cells[0], fired=0), *report.coverage.cells[1:])
    page = render(
        msgspec.structs.replace(report, coverage=msgspec.structs.replace(report.coverage, cells=cells))
    )
    assert "1 pair of fault and point never fired: " in page
    sections = re.findall(r'<section id="([\w-]+)"', page)
    wanted = ["failures", "results", "untested", "coverage", "example", "facts"]
    assert [name for name in sections if name in wanted] == wanted
    assert page.index('class="verdict') < page.index('id="failures"')


def test_tile_and_facts_of_a_night_have_one_length(made):
    report = made.report()
    facts = msgspec.structs.replace(report.facts, seconds=60.0, night_seconds=1234.0)
    page = render(msgspec.structs.replace(report, facts=facts))
    assert page.count("20 min 34 s") == 2
    assert "1 min 00 s of it the campaign" in page


def test_cells_and_families_lead_to_their_scenarios(made):
    report = made.report([made.failure()])
    family = msgspec.structs.replace(
        report.families[0], seeds=(4, 9), replay="onceproof replay SEED --family word_count"
    )
    failed = made.failure()
    report = msgspec.structs.replace(report, families=(family, *report.families[1:]))
    page = render(report)
    links = set(re.findall(r'href="(#[\w-]+)"', page[page.index('id="results"') :]))
    assert {"#scenarios-1"} <= links
    assert "onceproof replay 9 --family word_count" in page
    assert all(f'id="{link[1:]}"' in page for link in links), failed
    served = render(report, served="night/run")
    assert f"/search?run=night%2Frun&amp;family={family.family}" in served


def test_failure_names_the_versions_between_which_it_came(made):
    failure = made.failure(last_without="aaa1111", first_with="bbb2222+")
    page = render(made.report([failure]))
    assert "a change after <code>aaa1111</code>, up to <code>bbb2222+</code>" in page
    # The same code, which other scenarios have shown to be wrong.
    same = render(made.report([made.failure(last_without="aaa1111", first_with="aaa1111")]))
    assert "a change after" not in same


@pytest.mark.parametrize("name", ["failed", "long", "compared"])
def test_what_scrolls_can_be_reached_by_the_keyboard(reports, name):
    page = render(reports[name])
    boxes = re.findall(r'<div class="(?:scroll|frame)[^>]*>', page)
    commands = re.findall(r'<span class="what">[^<]*</span><code[^>]*>', page)
    assert boxes
    assert all('tabindex="0"' in each for each in (*boxes, *commands))
