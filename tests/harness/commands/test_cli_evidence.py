"""`onceproof evidence`: what is kept of a failure, and what of it leaves the machine."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path

import pytest

from onceproof.harness.commands.evidence import evidence_command, without_private
from onceproof.harness.model.exit_codes import PASSED, UsageError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import History
from onceproof.harness.model.run_record import MOST_BYTES, RunRecord
from onceproof.harness.systems.program.system import CommandSystem
from onceproof.harness.trials.evidence import evidence_folder, keep_evidence, private_texts
from tests.harness.systems.program.programs import COPIES_LINES, RECORDS, program, scenario_of

SIGNATURE = ("exactly_once", "duplicated")
ORACLE = """
record_schema = row_schema = "id BIGINT, key STRING"
def generate(random):
    from onceproof import Workload
    return Workload({"numbers": [(n, (n, "k0")) for n in range(6)]})
def expected(records, declared):
    return [value for split in records.values() for _, value in split]
"""
MORE = """environment = { PYTHONPATH = "{here}" }
[hooks]
before_restart = ["sh", "{here}/again.sh"]
[[render]]
template = "sink.properties"
file = "sink.properties"
"""


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The results of a run in which one scenario of a program failed, on the machine of one Jane Doe."""
    monkeypatch.setenv("HOME", "/home/jdoe")
    monkeypatch.setenv("LOGNAME", "jdoe")
    monkeypatch.setattr("socket.gethostname", lambda: "janes-laptop")
    trial = tmp_path / "trial"
    (trial / "output").mkdir(parents=True)
    said = f"jdoe@janes-laptop reads {trial}/input for jdoe, not jdoes; postgres://me:secret@127.0.0.1:1/db\n"
    (trial / "start-1.txt").write_text(f"{said}/home/jdoe/lib.py and /Users/other/x\n")
    (trial / "output" / "jdoe.txt").write_text("a row")
    (trial / "state.bin").write_bytes(b"\0/home/jdoe")
    (trial / "link").symlink_to("/etc/hostname")
    os.mkfifo(trial / "pipe")
    record = RunRecord(times=[1_000_000.0, 1_000_000.25, 1_000_000.5])
    record.add_line(1_000_000.1, "start 1", f"line of {trial}")
    record.given.append((1_000_000.2, "numbers", (7, (0, "k0"))))
    record.add_files(trial)
    history = History(record=record)
    history.attempt_started(1, "1", 1, None, outside=True)
    history.fault_fired(2, "kill_process", "element", "*", outside=True)
    history.rows_found(3, "look 1", "1", [(0,), (0,)])
    here = tmp_path / "jdoe-project"
    here.mkdir()
    path = program(here, COPIES_LINES, begin='promise = "at_least_once"')
    family = load_family(str(path))
    scenario = scenario_of(path, records=RECORDS)
    out = tmp_path / "out"
    folder = evidence_folder(out, family.name, SIGNATURE)
    keep_evidence(folder, CommandSystem(), family, scenario, history, SIGNATURE, f"Row of {here} twice.")
    return out


def unpacked(results: Path) -> dict[str, str]:
    with tarfile.open(results / "evidence.tar.gz") as archive:
        found = {}
        for member in archive:
            assert (member.uid, member.uname, member.mtime, member.isreg()) == (0, "", 0, True)
            file = archive.extractfile(member)
            assert file is not None
            found[member.name.partition("/")[2].partition("/")[2]] = file.read().decode()
    return found


def test_the_archive_says_nothing_of_the_machine_or_its_user(results: Path) -> None:
    assert evidence_command(results, None) == PASSED
    files = unpacked(results)
    everything = "\n".join([*files, *files.values()])
    names = ["jdoe/", "jdoe@", "jdoe ", "janes-laptop", "/home/", "/Users/", "secret", str(results.parent)]
    assert [name for name in names if name in everything] == []
    said = (
        "<user>@<host> reads <trial>/input for <user>, not jdoes; postgres://me:<password>@127.0.0.1:1/db\n"
    )
    assert files["files/start-1.txt"] == f"{said}<home>/lib.py and <home>/x\n"
    assert files["files/output/<user>.txt"] == "a row"
    # Neither what is no text, nor what a link or a pipe leads to.
    assert not {"files/state.bin", "files/link", "files/pipe"} & files.keys()


def test_the_archive_shows_what_was_seen_with_its_times(results: Path) -> None:
    evidence_command(results, None)
    files = unpacked(results)
    assert files["timeline.txt"].splitlines() == [
        "1970-01-12T13:46:40.000+00:00 step 1: job starts attempt 1 with parallelism 1, from the beginning",
        "1970-01-12T13:46:40.100+00:00   start 1 prints: line of <trial>",
        "1970-01-12T13:46:40.250+00:00 step 2: program FAULT kill_process at element",
        "1970-01-12T13:46:40.500+00:00 step 3: job FOUND look 1: 0, 0",
    ]
    assert '"given":"1970-01-12T13:46:40.200+00:00","split":"numbers"' in files["input.jsonl"]
    assert '"by":"look 1","what":"rows_found","rows":[[0],[0]]' in files["output.jsonl"]
    assert files["versions.txt"].startswith("onceproof ")
    assert {"program/program.py", "program/job.toml", "scenario.json"} <= files.keys()


def test_the_archive_has_the_files_that_a_replay_reads(tmp_path: Path) -> None:
    here, oracle = tmp_path / "jobs", tmp_path / "shared" / "oracle.py"
    here.mkdir()
    oracle.parent.mkdir()
    oracle.write_text(ORACLE)
    path = program(here, COPIES_LINES, begin='oracle = "../shared/oracle.py"', more=MORE)
    for name in ("imported.py", "again.sh", "sink.properties", "secrets.txt"):
        (here / name).write_text("own")
    scenario = scenario_of(path)
    record, out = RunRecord(), tmp_path / "out"
    family = load_family(str(path))
    folder = evidence_folder(out, family.name, SIGNATURE)
    keep_evidence(folder, CommandSystem(), family, scenario, History(record=record), SIGNATURE, "Twice.")
    kept = {file.relative_to(folder).as_posix() for file in folder.rglob("*.*")}
    named = {"job.toml", "program.py", "imported.py", "again.sh", "sink.properties"}
    assert {name for name in kept if name.startswith(("program/", "shared/"))} == {
        "shared/oracle.py",
        *(f"program/{name}" for name in named),
    }


def test_the_draft_says_what_was_promised_observed_and_how_to_repeat_it(results: Path) -> None:
    evidence_command(results, None)
    draft = unpacked(results)["issue.md"]
    assert "# job: duplicated" in draft
    assert "Each expected row appears at least once" in draft
    assert "Row of <program> twice. (exactly_once, duplicated)" in draft
    assert "program FAULT kill_process at element" in draft
    assert "prints:" not in draft
    assert "onceproof replay scenario.json --family program/job.toml --system command" in draft
    assert "| Python | " in draft


def test_the_same_evidence_is_packed_the_same(results: Path) -> None:
    evidence_command(results, None)
    first = (results / "evidence.tar.gz").read_bytes()
    (folder,) = (path.parent for path in results.glob("failures/*/about.json"))
    evidence_command(folder, results / "again.tar.gz")
    assert (results / "again.tar.gz").read_bytes() == first


def test_with_json_the_archive_is_named_in_a_document(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evidence_command(results, None, as_json=True) == PASSED
    document = json.loads(capsys.readouterr().out)
    assert (document["archive"], document["failures"]) == (str(results / "evidence.tar.gz"), 1)
    assert document["files"] == len(unpacked(results))


def test_a_folder_without_evidence_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no evidence of a failure: give the results of a run"):
        evidence_command(tmp_path, None)
    (tmp_path / "about.json").write_text("{}")
    with pytest.raises(UsageError, match="not the evidence of a failure: Object missing required field"):
        evidence_command(tmp_path, None)


def test_a_user_with_a_common_name_is_a_word() -> None:
    assert without_private("the root of it", {"root": "<user>"}) == "the root of it"
    assert without_private("/root/x /srv/root /rootfs", {"/root": "<home>"}) == "<home>/x /srv/root /rootfs"
    assert private_texts()[str(Path.home())] == "<home>"


def test_a_long_file_is_kept_without_its_middle(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"a" * MOST_BYTES + b"b" * 10)
    content = RunRecord.of(tmp_path).files["log"]
    assert content.startswith(b"aaa")
    assert content.endswith(b"b" * 10)
    assert b"... 10 bytes are left out ..." in content
