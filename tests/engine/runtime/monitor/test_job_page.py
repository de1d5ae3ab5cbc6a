"""The page of a running job: complete in one file, and what Chromium makes of it."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import closing
from importlib.resources import files

import pytest

from onceproof.engine.runtime.monitor.bounded_server import BoundedServer, Gate
from onceproof.engine.runtime.monitor.monitor_process import PAGE
from onceproof.engine.runtime.monitor.rest_api import JobBoard, RestApi
from tests.browser import MISSING, Browser, found_browser, pictures_folder
from tests.engine.runtime.monitor.views import earlier_view, job_view

SOURCE = files("onceproof.engine.runtime.monitor").joinpath(PAGE).read_bytes()


def test_the_page_loads_nothing_from_elsewhere_and_sets_no_markup():
    text = SOURCE.decode()
    assert not re.findall(r"(?:src|href)\s*=\s*[\"'](?!data:)", text)
    assert not re.findall(
        r"@import|url\(\s*[\"']?https?:|innerHTML|outerHTML|insertAdjacentHTML|eval\(", text
    )
    assert [
        each for each in re.findall(r"https?://[^\"' ]+", text) if each != "http://www.w3.org/2000/svg"
    ] == []


@pytest.fixture
def address():
    board = JobBoard(lambda number, request: None)
    board.show(earlier_view())
    board.show(job_view())
    api = RestApi(board, Gate(("127.0.0.1",), "secret", guards_reading=False), SOURCE)
    server = BoundedServer(socket.create_server(("127.0.0.1", 0)), api.respond)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.socket.getsockname()[1]}/"
    server.shutdown()
    server.server_close()


SHOWN = """new Promise((done) => {
  const isThere = () => document.querySelector("#graph svg");
  const look = () => isThere() ? done(document.body.innerText) : setTimeout(look, 20);
  look();
})"""
LABELS = "[...document.querySelectorAll('#curves svg')].map((each) => each.getAttribute('aria-label')).join()"
WIDTHS = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
# The contrast of each text with the first background behind it that is opaque (WCAG 2: at least 4.5).
CONTRASTS = """(() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => channels(colour).slice(0, 3).map((each) => each / 255)
    .map((each) => each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
    .reduce((sum, each, place) => sum + each * [0.2126, 0.7152, 0.0722][place], 0);
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const found = getComputedStyle(element).backgroundColor;
      if (channels(found)[3] !== 0) return found;
    }
    return "rgb(255, 255, 255)";
  };
  return [...document.querySelectorAll("h1, h2, p, td, th, span, b, button:not([disabled])")]
    .filter((element) => element.innerText.trim()).map((element) => {
      const both = [light(getComputedStyle(element).color), light(behind(element))];
      const [one, other] = both.sort((a, b) => b - a);
      return [(one + 0.05) / (other + 0.05), element.innerText];
    }).filter(([contrast]) => contrast < 4.5);
})()"""


@pytest.mark.skipif(found_browser() is None, reason=MISSING)
def test_chromium_shows_the_job_at_each_width_light_and_dark(address, tmp_path):
    with closing(Browser(tmp_path / "profile")) as browser:
        for width, scheme in ((1280, "light"), (390, "dark"), (390, "light"), (1280, "dark")):
            browser.open(f"{address}?{width}-{scheme}#token=secret", width, dark=scheme == "dark")
            text = browser.run(SHOWN)
            # The page never scrolls sideways; wide tables and the graph do so within themselves.
            assert browser.run(WIDTHS) == [width, width]
            assert browser.run(CONTRASTS) == []
            assert browser.barriers() == []
            # Names and causes are texts, whatever they look like.
            assert "orders & <i>prices</i>\n" in text
            assert "ValueError: no <b>shop</b>" in text
            assert "failed: DECLINED" in text
            graph = browser.run("document.getElementById('graph').textContent")
            assert "5,000 read, 700 pending" in graph
            assert "busy 20 %, backpressured 50 %" in graph
            # A curve with a point for each view, one with a point for each checkpoint, and the watermarks.
            assert browser.run("document.querySelectorAll('#curves svg').length") == 4
            assert "records read a second: 0 to 200, from " in browser.run(LABELS)
            assert "watermark (UTC): 2027-01-15 08:00:08.000 to 2027-01-15 08:00:08.000" in browser.run(
                LABELS
            )
            marks = browser.run("document.getElementById('watermarks').innerText")
            assert "shop\t2027-01-15 08:00:08.000\t0 ms\t2.0 s" in marks
            assert browser.run("location.href") == address
            assert browser.run("document.querySelectorAll('button[disabled]').length") == 0
            picture = (pictures_folder() or tmp_path) / f"job-{width}-{scheme}.png"
            browser.picture(picture)
            assert picture.stat().st_size > 10_000
        assert browser.errors == []
        asked = browser.requests
    assert asked
    assert [each for each in asked if not each.startswith((address, "data:", "about:"))] == []
