"""`onceproof replay`, `explain`, `families` and `faults`."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from onceproof.harness.checkers.outcome import from_line
from onceproof.harness.checkers.verdict import is_same_failure
from onceproof.harness.commands.cli import main
from onceproof.harness.model.family_places import family_names, load_family
from onceproof.harness.model.fault_kinds import FAULT_KINDS
from onceproof.harness.model.scenario import Fault, read_scenario, to_json
from onceproof.harness.shrinking.removals import needed_of
from onceproof.harness.trials.output_files import OUTCOMES
from onceproof.harness.trials.trial import scenario_of
from tests.harness.conftest import written_forgetful

if TYPE_CHECKING:
    from tests.harness.commands.conftest import Command


def test_replay_gives_the_verdict_and_the_trace_hash_of_the_run(onceproof: Command) -> None:
    onceproof("run", "word_count", "page_views", "--scenarios", "8", "-n", "1", "--out", "out")
    for line in Path("out", OUTCOMES).read_bytes().splitlines()[:4]:
        outcome = from_line(line)
        ended = onceproof("replay", str(outcome.seed), "--family", outcome.family, "--json")
        assert ended.code == 0
        assert json.loads(ended.out) == {
            "verdict": "passed",
            "signature": None,
            "trace_hash": outcome.trace_hash,
            "violations": [],
        }


def test_scenario_file_replays_like_its_seed(onceproof: Command) -> None:
    Path("scenario.json").write_text(to_json(scenario_of(load_family("page_views"), 9)), encoding="utf-8")
    by_seed = onceproof("replay", "9", "--family", "page_views", "--json")
    by_file = onceproof("replay", "scenario.json", "--json")
    assert by_seed.out == by_file.out


def test_trace_prints_one_line_per_event_in_columns(onceproof: Command) -> None:
    ended = onceproof("replay", "3", "--family", "word_count", "--trace")
    story, _, verdict = ended.out.partition("\n\n")
    lines = story.splitlines()
    steps = [int(line.split()[0]) for line in lines]
    assert steps == sorted(steps)
    assert len({line.index(line.split()[1]) for line in lines}) == 1
    assert "attempt 1.1 with parallelism" in lines[0]
    assert "trace hash" in verdict


def test_trace_is_part_of_the_json_document(onceproof: Command) -> None:
    ended = onceproof("replay", "3", "--family", "word_count", "--trace", "--json")
    assert json.loads(ended.out)["trace"]["lanes"][0] == "coordinator"


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that has failed, which the tests only read."""
    folder = tmp_path_factory.mktemp("failed")
    options = ["--scenarios", "12", "-n", "1", "--out", "out", "--shrink-runs", "0"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        written_forgetful(folder)
        assert main(["run", "forgetful.py", *options]) == 1
    return folder / "out"


@pytest.fixture
def failing(onceproof: Command, forgetful: Path, failed: Path) -> str:
    """A scenario that fails in the run of the folder out, as `onceproof` has left it."""
    shutil.copytree(failed, "out")
    return next(str(path) for path in sorted(Path("out", "failures").glob("*.original.json")))


def test_failing_replay_prints_the_witness(onceproof: Command, failing: str) -> None:
    ended = onceproof("replay", failing, "--family", "forgetful.py")
    assert ended.code == 1
    assert "FAILED exactly_once, " in ended.out
    assert "'expected': " in ended.out


def test_explain_and_merge_print_one_document(onceproof: Command, failing: str) -> None:
    explained = onceproof("explain", failing, "--family", "forgetful.py", "--out", "why", "--json")
    document = json.loads(explained.out)
    assert document["verdict"] == "failed"
    assert document["failure"]["sentence"] in explained.error
    assert Path(document["page"]) == Path("why", "index.html")
    rendered = onceproof("merge", "out", "--json")
    assert json.loads(rendered.out)["verdict"] == "failed"
    passing = onceproof("explain", "3", "--family", "word_count", "--json")
    assert (passing.code, json.loads(passing.out)["verdict"]) == (0, "passed")


def test_what_a_large_scenario_was_shown_to_need_is_printed(onceproof: Command, failing: str) -> None:
    scenario = read_scenario(Path(failing))
    stated = replace(scenario, needed=needed_of(scenario, ("exactly_once", "lost")))
    Path("large.json").write_text(to_json(stated), encoding="utf-8")
    line = f"The failure needs its {scenario.record_count()} records"
    replayed = onceproof("replay", "large.json", "--family", "forgetful.py")
    assert line in replayed.out
    as_it_is = ("--family", "forgetful.py", "--out", "why", "--shrink-runs", "0")
    explained = onceproof("explain", "large.json", *as_it_is, "--json")
    assert line in explained.error
    assert json.loads(explained.out)["failure"]["shrinking"]["needed"].startswith(line)
    assert line in Path("why", "index.html").read_text(encoding="utf-8")
    assert "removing any one" not in onceproof("replay", failing, "--family", "forgetful.py").out


def test_explain_writes_a_smaller_scenario_that_fails_alike(onceproof: Command, failing: str) -> None:
    ended = onceproof("explain", failing, "--family", "forgetful.py", "--out", "why")
    assert ended.code == 1
    replay = ended.out.splitlines()[-3]
    small = replay.split()[2]
    assert replay == f"onceproof replay {small} --family forgetful.py"
    before, after = (read_scenario(Path(path)).record_count() for path in (failing, small))
    assert after < before
    assert f"{after} record" in next(line for line in ended.out.splitlines() if line.startswith("shrunk to "))
    signatures = [
        json.loads(onceproof("replay", path, "--family", "forgetful.py", "--json").out)["signature"]
        for path in (failing, small)
    ]
    assert is_same_failure(signatures[1], signatures[0])


def test_explain_prints_the_violation_and_the_course_of_events(onceproof: Command, failing: str) -> None:
    ended = onceproof("explain", failing, "--family", "forgetful.py")
    assert ended.code == 1
    lines = ended.out.splitlines()
    assert re.match(r"FAILED exactly_once, [\w ]+: Row \(shop-\d, \d+\).*\.$", lines[1])
    assert "first divergence: step" in ended.out
    assert lines.index("what it takes") < lines.index("what happened")
    story = lines[lines.index("what happened") + 1 :]
    story = story[: story.index("")]
    assert "attempt 1.1 starts" in story[0]
    assert all(re.match(r"  (step \d+: |\.\.\. )", line) for line in story)


def test_explain_writes_a_page_with_the_diagram_and_the_scenario(onceproof: Command, failing: str) -> None:
    ended = onceproof("explain", failing, "--family", "forgetful.py", "--shrink-runs", "0")
    page = Path("reports", "out", "explain", "index.html")
    assert f"page: {page}" in ended.out.splitlines()
    text = page.read_text(encoding="utf-8")
    assert "Space-time diagram of failure 1" in text
    assert "What it takes." in text
    [kept] = [path for path in page.parent.joinpath("failures").iterdir() if "original" not in path.name]
    assert read_scenario(kept) == read_scenario(Path(failing))


def test_explain_names_faults_that_do_not_matter_or_removes_them(onceproof: Command, failing: str) -> None:
    found = read_scenario(Path(failing))
    # A fault at a checkpoint that the run never takes.
    idle = Fault("fail_write", "metadata_written", checkpoint=999)
    Path("wide.json").write_text(to_json(replace(found, faults=(*found.faults, idle))), encoding="utf-8")
    ended = onceproof("explain", "wide.json", "--family", "forgetful.py", "--shrink-runs", "0")
    assert "does not matter  fail the write at metadata written, checkpoint 999" in ended.out
    assert "so the scenario is not minimal" in ended.out
    ended = onceproof("explain", "wide.json", "--family", "forgetful.py", "--shrink-runs", "1000")
    assert "not minimal" not in ended.out
    assert "every property holds" in ended.out


def test_explain_prints_the_course_of_a_passing_scenario(onceproof: Command) -> None:
    ended = onceproof("explain", "3", "--family", "word_count")
    assert ended.code == 0
    assert "Every property holds." in ended.out
    assert "what it takes" not in ended.out
    assert "the job finishes" in ended.out


def test_families_are_listed(onceproof: Command) -> None:
    assert "word_count" in onceproof("families").out
    documents = json.loads(onceproof("families", "--json").out)
    assert [document["name"] for document in documents] == family_names()


def test_faults_are_listed_with_the_answer_of_each_system(onceproof: Command) -> None:
    text = onceproof("faults").out
    assert [line.split()[0] for line in text.splitlines() if not line.startswith(" ")] == list(FAULT_KINDS)
    assert text.count("\n  structured_streaming ") == len(FAULT_KINDS)
    documents = json.loads(onceproof("faults", "--system", "local", "--json").out)
    answers = {document["kind"]: document["systems"]["local"] for document in documents}
    assert answers["kill_process"]["carried_out"]
    assert not answers["kill_master"]["carried_out"]
    assert answers["kill_master"]["answer"]
    ended = onceproof("faults", "--system", "locl")
    assert ended.code == 4
    assert "did you mean local?" in ended.error


def test_replay_prints_the_first_violation_of_each_kind_and_a_count(
    onceproof: Command, forgetful: Path
) -> None:
    onceproof("run", "forgetful.py", "--scenarios", "30", "-n", "1", "--out", "out", "--shrink-runs", "0")
    outcomes = [from_line(line) for line in Path("out", OUTCOMES).read_bytes().splitlines()]
    repeated = 0
    for seed in [str(outcome.seed) for outcome in outcomes if not outcome.passed]:
        ended = onceproof("replay", seed, "--family", "forgetful.py")
        heads = [line.split(":")[0] for line in ended.out.splitlines() if line.startswith("FAILED ")]
        assert len(set(heads)) == len(heads)
        document = json.loads(onceproof("replay", seed, "--family", "forgetful.py", "--json").out)
        kinds = Counter(f"FAILED {each['property']}, {each['anomaly']}" for each in document["violations"])
        assert set(heads) == set(kinds)
        more = re.findall(r"^  and (\d+) more of this kind$", ended.out, re.MULTILINE)
        assert sorted(map(int, more)) == sorted(count - 1 for count in kinds.values() if count > 1)
        repeated += len(more)
    assert repeated
