"""`onceproof run --share` and `onceproof merge`: several machines run one run, and make one report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from onceproof.harness.model.exit_codes import FAILED, INTERRUPTED, PASSED, USAGE
from onceproof.harness.model.seeds import WHOLE, Share, numbered
from onceproof.harness.trials.output_files import OUTCOMES

if TYPE_CHECKING:
    from tests.harness.commands.conftest import Command

FAMILIES = ("word_count", "page_views")


def run(onceproof: Command, out: str, *more: str, families: tuple[str, ...] = FAMILIES) -> Any:
    return onceproof("run", *families, "--scenarios", "31", "-n", "1", "--seed", "7", "--out", out, *more)


@pytest.mark.parametrize(("scenarios", "families", "of"), [(31, 2, 3), (7, 3, 4), (1, 2, 2), (12, 5, 1)])
def test_shares_are_the_run_without_gap_or_overlap(scenarios: int, families: int, of: int) -> None:
    names = [f"family-{number}" for number in range(families)]
    whole = list(numbered(7, names, 0, scenarios))
    shares = [Share(of, first) for first in range(of)]
    parts = [
        each
        for share in shares
        for each in numbered(7, names, 0, share.scenarios_in(scenarios, families), share)
    ]
    assert sorted(parts) == sorted(whole)
    assert WHOLE.scenarios_in(scenarios, families) == scenarios


def test_merged_shares_give_the_report_of_the_undivided_run(onceproof: Command) -> None:
    whole = json.loads(run(onceproof, "whole", "--json").out)
    for first in ("0", "1"):
        ended = run(onceproof, f"share-{first}", "--share", "2", "--first", first)
        assert ended.code == PASSED
    merged = onceproof("merge", "share-0", "share-1", "--out", "merged", "--junit", "junit.xml", "--json")
    assert merged.code == PASSED
    document = json.loads(merged.out)
    for name in ("scenarios", "passed", "failed", "families", "asked", "situations", "trace_hash"):
        assert document[name] == whole[name], name
    report, one = (json.loads(Path(name, "report.json").read_bytes()) for name in ("merged", "whole"))
    assert report["coverage"] == one["coverage"]
    assert Path("junit.xml").read_text(encoding="utf-8").endswith("</testsuites>\n")
    part = json.loads(Path("share-1", "report.json").read_bytes())
    assert ["share", "number 1 of 2, counted from 0"] in part["facts"]["others"]


def test_failures_of_shares_are_shrunk_and_replayed(onceproof: Command, forgetful: Path) -> None:
    for first in ("0", "1"):
        words = ("--share", "2", "--first", first, "--shrink-runs", "0", "--scenarios", "12")
        assert run(onceproof, f"s{first}", *words, families=("forgetful.py",)).code == FAILED
    refused = onceproof("merge", "s0", "s1")
    assert refused.code == USAGE
    assert "forgetful" in refused.error
    words = ("--family", "forgetful.py", "--shrink-runs", "0", "--out", "merged")
    assert onceproof("merge", "s0", "s1", *words).code == FAILED
    [kept, *_] = sorted(Path("merged", "failures").glob("*.original.json"))
    assert onceproof("replay", str(kept), "--family", "forgetful.py").code == FAILED


def test_merged_run_is_a_night_of_a_history(onceproof: Command) -> None:
    run(onceproof, "share-0", "--share", "2")
    for nights in (1, 2):
        ended = onceproof("merge", "share-0", "--out", "merged", "--history", "nights")
        assert ended.code == PASSED
        assert len(list(Path("nights").glob("*.parquet"))) == nights
    assert len(json.loads(Path("merged", "report.json").read_bytes())["nights"]) == 2


def test_share_that_was_interrupted_makes_the_whole_interrupted(onceproof: Command) -> None:
    run(onceproof, "share-0", "--share", "2")
    path = Path("share-0", "report.json")
    report = json.loads(path.read_bytes()) | {"interrupted": "interrupted from the keyboard"}
    path.write_text(json.dumps(report), encoding="utf-8")
    ended = onceproof("merge", "share-0", "--out", "merged")
    assert ended.code == INTERRUPTED
    assert "ended early" in ended.out


def test_shares_that_do_not_fit_are_one_line(onceproof: Command) -> None:
    run(onceproof, "share-0", "--share", "2")
    onceproof("run", "word_count", "--scenarios", "2", "-n", "1", "--seed", "8", "--out", "other")
    damaged = Path("damaged")
    damaged.mkdir()
    (damaged / "report.json").write_bytes(Path("share-0", "report.json").read_bytes())
    (damaged / OUTCOMES).write_text("{}\n", encoding="utf-8")
    report = json.loads(Path("share-0", "report.json").read_bytes())
    report["facts"]["families_version"] = "shop 1a2b3c4"
    Path("moved").mkdir()
    Path("moved", "report.json").write_text(json.dumps(report), encoding="utf-8")
    for folders, words in (
        (("share-0", "share-0"), ["is there twice"]),
        (("share-0", "other"), ["other: its seed is 8", "share-0 is 7"]),
        (("share-0", "moved"), ["moved: its commit of the families is shop 1a2b3c4", "share-0 is unknown"]),
        (("absent",), ["absent: no results of a run"]),
        (("share-0", "damaged"), [f"damaged/{OUTCOMES}:1: not an outcome"]),
    ):
        ended = onceproof("merge", *folders)
        assert (ended.code, ended.out) == (USAGE, "")
        [line] = ended.error.splitlines()
        for word in words:
            assert word in line
