"""--junit: the JUnit XML file of a run and of a report that is rendered again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from onceproof.harness.checkers import PROPERTIES

if TYPE_CHECKING:
    from tests.harness.commands.conftest import Command

OPTIONS = ("--scenarios", "40", "-n", "1", "--shrink-runs", "5")
RUN = ("run", *OPTIONS, "--out", "out", "--junit", "results/junit.xml")


def cases(path: str = "results/junit.xml") -> dict[tuple[str, str], ElementTree.Element | None]:
    """Return the failure or skip element of each case by suite and name; None for a passed case."""
    return {
        (suite.attrib["name"], case.attrib["name"]): next(iter(case), None)
        for suite in ElementTree.parse(path).getroot()
        for case in suite.findall("testcase")
    }


def test_passing_run_has_a_passed_case_per_property_and_family(onceproof: Command) -> None:
    assert onceproof(*RUN, "word_count", "page_views").code == 0
    results = cases()
    assert set(results.values()) == {None}
    for family in ("word_count", "page_views"):
        assert {name for suite, name in results if suite == family} >= set(PROPERTIES) - {
            "mode",
            "conformance",
        }
    seconds = [float(suite.attrib["time"]) for suite in ElementTree.parse("results/junit.xml").getroot()]
    assert all(seconds)


def test_failure_case_has_its_replay_command(onceproof: Command, forgetful: Path) -> None:
    ended = onceproof(*RUN, "forgetful.py", "--shrink-runs", "0")
    assert ended.code == 1
    failure = cases()["forgetful", "exactly_once"]
    assert failure is not None
    assert failure.tag == "failure"
    assert failure.text is not None
    replay = next(line for line in failure.text.splitlines() if line.startswith("replay: "))
    assert f"  {replay.removeprefix('replay: ')}" in ended.out.splitlines()
    assert cases()["run", "verdict"] is not None
    # report.json holds everything that the JUnit file needs.
    before = Path("results/junit.xml").read_bytes()
    assert onceproof("merge", "out", "--junit", "again.xml").code == 1
    assert Path("again.xml").read_bytes() == before


def test_unwritable_junit_file_is_reported_before_the_run(onceproof: Command) -> None:
    Path("results").touch()
    ended = onceproof(*RUN, "word_count")
    assert ended.code == 4
    assert ended.error == "onceproof: results/junit.xml: cannot be written: File exists\n"
    assert not Path("out").exists()


def test_failed_start_removes_the_junit_file_of_an_earlier_run(onceproof: Command) -> None:
    assert onceproof(*RUN, "word_count").code == 0
    assert onceproof(*RUN, "wrod_count").code == 4
    assert not Path("results/junit.xml").exists()
