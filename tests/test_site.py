"""The checks of the built site find what is wrong, and the tables of systems are those of the code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onceproof.harness.model.system_homes import system_names
from tests.site_links import INDEX, dead_links, main, missing_in_search
from tests.system_table import PAGE, with_tables


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "below").mkdir()
    (tmp_path / "search").mkdir()
    (tmp_path / "index.html").write_text(
        '<h1 id="top">Top</h1><a href="below/page.html#there">x</a><a href="https://example.org/">y</a>'
    )
    (tmp_path / "below" / "page.html").write_text('<h2 id="there">Here</h2><a href="../#top">x</a>')
    locations = ("index.html", "below/page.html#there", "below/page.html")
    (tmp_path / INDEX).write_text(json.dumps({"docs": [{"location": each} for each in locations]}))
    return tmp_path.resolve()


def test_sound_site_has_no_problem(site: Path) -> None:
    assert main(site) == 0


def test_dead_links_are_found(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (site / "below" / "page.html").write_text('<a href="gone.html">x</a><a href="../index.html#gone">y</a>')
    assert list(dead_links(site)) == [
        "below/page.html: ../index.html#gone: no such heading",
        "below/page.html: gone.html: no such page",
        "index.html: below/page.html#there: no such heading",
    ]
    assert main(site) == 1
    assert "docs: below/page.html: gone.html" in capsys.readouterr().err


def test_page_that_the_search_does_not_know_is_found(site: Path) -> None:
    (site / "new.html").write_text("")
    assert list(missing_in_search(site)) == ["new.html: not in the search"]
    (site / INDEX).unlink()
    assert len(list(missing_in_search(site))) == 1


def test_tables_of_systems_are_those_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert with_tables(text) == text, "python -m tests.system_table writes them"
    first = text.partition("## Which properties")[0]
    assert {name for name in system_names() if f"`{name}`" not in first} == set()
