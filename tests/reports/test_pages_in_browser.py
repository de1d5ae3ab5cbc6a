"""Report and served pages in a real browser: widths, colours, barriers, errors, requests, and what they do.

Set ONCEPROOF_PICTURES to a folder to keep a picture of each page.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceproof.harness.commands.cli import main
from onceproof.harness.commands.serve import RunServer
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.trials.trial import try_scenario
from onceproof.reports.render import write
from tests.browser import MISSING, Browser, found_browser, pictures_folder

pytestmark = pytest.mark.skipif(found_browser() is None, reason=MISSING)

CLIPPED = """[...document.querySelectorAll('.scroll')]
  .filter((each) => each.scrollWidth > each.clientWidth).length"""
# axe-core takes seconds for a large page, so it sees each width and each colour once.
VIEWS = ((1280, False), (390, True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for seed in ("1", "2"):
        words = ("--scenarios", "60", "-n", "1", "--seed", seed, "--out", str(folder / f"r{seed}"))
        assert main(["run", "word_count", "page_views", *words]) == 0
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RunServer]:
    with RunServer(folder, 0) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


def small_seed() -> int:
    """Return the seed of a scenario with a kill and few records."""
    family = load_family("word_count")
    for seed in range(500):
        scenario = generate(family, seed)
        is_small = 3 <= scenario.record_count() <= 10 and scenario.faults
        if is_small and try_scenario(family, scenario).history.statistics.coverage:
            return seed
    raise AssertionError("no such scenario")


@pytest.fixture(scope="module")
def scenario(server: RunServer) -> str:
    return f"{server.address}scenario?family=word_count&seed={small_seed()}"


def test_pages_fit_and_are_silent_at_both_widths_in_both_colours(
    browser: Browser, server: RunServer, folder: Path, scenario: str
) -> None:
    pages = {
        "report": (folder / "r1" / "index.html").as_uri(),
        "index": server.address,
        "run": f"{server.address}run?run=r1",
        "search": f"{server.address}search?family=word_count",
        "scenario": scenario,
    }
    pictures = pictures_folder()
    for name, address in pages.items():
        for width, dark in VIEWS:
            browser.errors.clear()
            browser.requests.clear()
            browser.open(address, width, dark)
            assert browser.run("document.documentElement.scrollWidth") <= width, (name, width)
            if name in ("index", "search") and width == 1280:
                assert browser.run(CLIPPED) == 0, name
            assert browser.errors == [], (name, width)
            assert browser.barriers() == [], (name, width, dark)
            assert {each for each in browser.requests if not each.startswith("data:")} <= {
                address,
                "about:blank",
            }
            if pictures:
                colours = "dark" if dark else "light"
                browser.picture(pictures / f"{name}-{width}-{colours}.png")


def test_a_picture_without_a_text_is_a_barrier(browser: Browser) -> None:
    browser.open("data:text/html,<html lang=en><title>p</title><main><h1>p</h1><img src='data:,'></main>")
    found = browser.barriers()
    assert len(found) == 1
    assert found[0].startswith("critical, image-alt: Images must have alternate text")


def test_diagram_goes_from_step_to_step_and_links_to_one(browser: Browser, scenario: str) -> None:
    browser.open(scenario)
    browser.run("document.querySelector('.frame').focus()")
    browser.press("ArrowRight")
    browser.press("ArrowRight")
    link, said = browser.run("[location.hash, document.querySelector('output').textContent]")
    assert link.startswith("#diagram@")
    assert said.startswith(f"step {link.removeprefix('#diagram@')}: ")
    assert browser.run("document.querySelectorAll('.space-time .now').length") > 0
    browser.open(f"{scenario}{link}")
    assert browser.run("document.querySelector('output').textContent") == said
    browser.run("document.querySelector('.frame').focus()")
    browser.press("Escape")
    assert browser.run("document.querySelectorAll('.space-time .now').length") == 0


def test_click_on_a_record_shows_its_path(browser: Browser, scenario: str) -> None:
    browser.open(scenario)
    browser.run("document.querySelector('.arrows.record path').dispatchEvent(new MouseEvent('click'))")
    lit = browser.run("document.querySelectorAll('.arrows.record path:not(.faint)').length")
    # From the source over the count to the sink.
    assert 2 <= lit < browser.run("document.querySelectorAll('.arrows.record path').length")
    # It is written once, and once more where it is read again after the kill.
    assert browser.run("document.querySelectorAll('.marks .write:not(.faint)').length") in (1, 2)
    assert browser.run("document.querySelector('output').textContent").startswith("the path of record")


def test_lane_is_hidden_and_diagram_grows(browser: Browser, scenario: str) -> None:
    browser.open(scenario)
    wide = browser.run("document.querySelector('.body svg').getBoundingClientRect().width")
    browser.run("document.querySelector('.tools button[title=Larger]').click()")
    assert browser.run("document.querySelector('.body svg').getBoundingClientRect().width") == pytest.approx(
        1.25 * wide, rel=0.01
    )
    browser.run("document.querySelector('.tools input').click()")
    hidden = browser.run("[...document.querySelectorAll('.off[data-at]')].map((each) => each.dataset.at)")
    assert hidden
    assert all("0" in at.split(" ")[::2] for at in hidden)


def test_table_sorts_and_filters(browser: Browser, server: RunServer) -> None:
    browser.open(f"{server.address}search?run=r1")
    cells = "[...document.querySelectorAll('tbody tr:not([hidden])')].map((row) => row.cells[7].textContent)"
    steps = browser.run(cells)
    browser.run("document.querySelectorAll('th button.sort')[7].click()")
    ordered = [int(text.replace(",", "")) for text in browser.run(cells)]
    assert ordered == sorted(int(text.replace(",", "")) for text in steps)
    browser.run(
        "{const field = document.querySelector('input.filter'); field.value = 'page_views';"
        " field.dispatchEvent(new Event('input'));}"
    )
    assert 0 < len(browser.run(cells)) < len(steps)


def test_page_of_a_failure_opens_at_the_row_and_the_step(browser: Browser, made: Any, tmp_path: Path) -> None:
    page = write(made.report([made.failure()]), tmp_path)
    browser.open(page.as_uri())
    # The differing row is on the first screen; the matching one is folded.
    assert browser.run("document.querySelector('tr.lost').getBoundingClientRect().bottom < innerHeight")
    assert browser.run("document.querySelector('.matching').open") is False
    assert browser.run("document.querySelector('.matching summary').textContent") == "1 matching row"
    # The diagram opens at the step of the first divergence, and the address stays that of the page.
    said, link = browser.run("[document.querySelector('output').textContent, location.hash]")
    assert said.startswith("step 20: ")
    assert link == ""
    browser.open(f"{page.as_uri()}#failure-1-diagram@0")
    assert not browser.run("document.querySelector('output').textContent").startswith("step 20: ")
