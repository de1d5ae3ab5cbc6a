"""--junit: the file that a CI server reads, from a run and from a report that is rendered again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from onceproof.harness.checkers import PROPERTIES

if TYPE_CHECKING:
    from tests.harness.commands.conftest import Command

RUN = ("run", "--scenarios", "40", "-n", "1", "--out", "out", "--junit", "results/junit.xml")


def cases(path: str = "results/junit.xml") -> dict[tuple[str, str], ElementTree.Element | None]:
    """Return what became of each case, by suite and name; None for one that passed."""
    return {
        (suite.attrib["name"], case.attrib["name"]): next(iter(case), None)
        for suite in ElementTree.parse(path).getroot()
        for case in suite.findall("testcase")
    }


def test_a_sound_run_passes_each_property_of_each_family(onceproof: Command) -> None:
    assert onceproof(*RUN, "word_count", "page_views").code == 0
    told = cases()
    assert set(told.values()) == {None}
    for family in ("word_count", "page_views"):
        assert {name for suite, name in told if suite == family} >= set(PROPERTIES)
    seconds = [float(suite.attrib["time"]) for suite in ElementTree.parse("results/junit.xml").getroot()]
    assert all(seconds)


def test_a_failure_is_told_with_its_replay(onceproof: Command, forgetful: Path) -> None:
    ended = onceproof(*RUN, "forgetful.py")
    assert ended.code == 1
    failure = cases()["forgetful", "exactly_once"]
    assert failure is not None
    assert failure.tag == "failure"
    assert failure.text is not None
    replay = next(line for line in failure.text.splitlines() if line.startswith("replay: "))
    assert f"  {replay.removeprefix('replay: ')}" in ended.out.splitlines()
    assert cases()["run", "verdict"] is not None
    # The page has no more to say than its JSON.
    before = Path("results/junit.xml").read_bytes()
    assert onceproof("report", "out", "--junit", "again.xml").code == 0
    assert Path("again.xml").read_bytes() == before


def test_what_cannot_be_written_is_told_before_anything_is_run(onceproof: Command) -> None:
    Path("results").touch()
    ended = onceproof(*RUN, "word_count")
    assert ended.code == 4
    assert ended.error == "onceproof: results/junit.xml: cannot be written: File exists\n"
    assert not Path("out").exists()


def test_a_run_that_does_not_come_to_its_report_leaves_no_results_of_another(onceproof: Command) -> None:
    assert onceproof(*RUN, "word_count").code == 0
    assert onceproof(*RUN, "wrod_count").code == 4
    assert not Path("results/junit.xml").exists()
