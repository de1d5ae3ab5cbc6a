"""Files and folders of results: claimed, whole, written through links and pipes, and full disks."""

from __future__ import annotations

import errno
import os
import re
import resource
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from onceproof.harness.commands.cli import main
from onceproof.harness.model.exit_codes import PASSED, USAGE, exit_code_of, line_of
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.systems.simulation.modelled_databases import has_real_databases
from onceproof.harness.trials.output_files import (
    OUTCOMES,
    OutputUnwritable,
    claimed_folder,
    prepare_file,
    write_file,
)
from onceproof.harness.trials.run_plan import RunPlan
from onceproof.harness.trials.runner import RunStopped, run
from tests.patience import PATIENCE_SECONDS

RUN = ("run", "word_count", "--scenarios", "2", "-n", "1", "--out", "out")


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let this process write no file that is larger, as on a disk with so much room."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_second_run_in_a_folder_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with claimed_folder(Path("out")):
        assert main(RUN) == USAGE
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("onceproof: out: another run writes its results there: ")
        # Another folder is free, also one below it.
        assert main([*RUN[:-1], "out/below"]) == PASSED
    assert main(RUN) == PASSED
    assert {path.name for path in Path("out").iterdir()} == {OUTCOMES, "index.html", "report.json", "below"}


def test_full_disk_ends_a_run_with_its_path_and_keeps_what_is_finished() -> None:
    Path("out").mkdir()
    Path("out", OUTCOMES).symlink_to("/dev/full")
    with pytest.raises(RunStopped) as stopped:
        run(RunPlan(("word_count",), scenarios=40, workers=1), Path("out"))
    assert line_of(stopped.value) == "out/outcomes.jsonl: cannot be written: No space left on device"
    assert exit_code_of(stopped.value) == USAGE
    assert 0 < stopped.value.result.tally.scenarios < 40


def test_disk_that_is_full_at_the_report_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    # Neither of the two scenarios of this seed has a database, whose files would be too large as well.
    with largest_file(4000):
        code = main([*RUN, "--seed", "1"])
    captured = capsys.readouterr()
    assert (code, captured.err) == (
        USAGE,
        "onceproof: out/report.json: cannot be written: File too large\n",
    )
    # The summary of what is finished comes first.
    lines = captured.out.splitlines()
    assert lines[0] == "word_count: 2 scenarios, passed"
    assert lines[-1] == "report: none, because it cannot be written"
    assert sorted(path.name for path in Path("out").iterdir()) == [OUTCOMES]


def test_full_disk_below_a_database_ends_the_run_and_is_no_failure_of_a_scenario(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # A model of RocksDB writes no file so large.
    seed = next(
        seed
        for seed in count()
        if all(has_real_databases(scenario_seed(seed, "word_count", index)) for index in range(2))
    )
    with largest_file(4000):
        code = main([*RUN, "--system", "simulated-rocksdb", "--seed", str(seed)])
    captured = capsys.readouterr()
    assert code == USAGE
    [line] = captured.err.splitlines()
    assert re.fullmatch(
        r"onceproof: /\S+/onceproof-rocksdb-\S+: cannot be written:"
        " File too large: free some space, or name another folder",
        line,
    )
    assert "FAILED" not in captured.out


def test_summary_of_a_run_whose_outcomes_fill_the_disk_comes_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("out").mkdir()
    Path("out", OUTCOMES).symlink_to("/dev/full")
    assert main(["run", "word_count", "--scenarios", "40", "-n", "1", "--out", "out"]) == USAGE
    captured = capsys.readouterr()
    assert captured.err == "onceproof: out/outcomes.jsonl: cannot be written: No space left on device\n"
    assert "ended early; the results of the finished scenarios are kept" in captured.out.splitlines()
    assert "\nreport: out/index.html\n" in captured.out


def test_failure_that_does_not_fit_on_the_disk_is_printed_with_its_seed(
    capsys: pytest.CaptureFixture[str], forgetful: Path
) -> None:
    options = ["--scenarios", "30", "-n", "1", "--out", "out", "--shrink-runs", "0"]
    Path("out").mkdir()
    Path("out", "failures").write_text("a file in place of the folder", encoding="utf-8")
    assert main(["run", "forgetful.py", *options]) == USAGE
    captured = capsys.readouterr()
    assert captured.err.startswith("onceproof: out/failures: cannot be written")
    assert len(captured.err.splitlines()) == 1
    failed = [line for line in captured.out.splitlines() if line.startswith("FAILED forgetful: ")]
    replays = [line for line in captured.out.splitlines() if line.startswith("  onceproof replay ")]
    assert len(failed) == len(replays) > 0
    assert all(line.split()[2].isdecimal() for line in replays)


def test_full_disk_without_a_path_names_the_folders(tmp_path: Path) -> None:
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert exit_code_of(error) == USAGE
    assert line_of(error).startswith(f"{tmp_path}, or the temporary files in ")
    named = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "part-0")
    assert line_of(named).startswith("part-0: cannot be written: No space left on device")


def test_junit_goes_through_a_link() -> None:
    Path("kept").mkdir()
    Path("kept", "target.xml").write_text("of an earlier run", encoding="utf-8")
    Path("link.xml").symlink_to("kept/target.xml")
    assert main([*RUN, "--junit", "link.xml"]) == PASSED
    assert Path("link.xml").is_symlink()
    assert Path("kept", "target.xml").read_text(encoding="utf-8").endswith("</testsuites>\n")


def test_junit_goes_into_a_pipe() -> None:
    os.mkfifo("pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(Path("pipe").read_bytes()), daemon=True)
    reader.start()
    assert main([*RUN, "--junit", "pipe"]) == PASSED
    reader.join(PATIENCE_SECONDS)
    assert read[0].endswith(b"</testsuites>\n")
    assert stat.S_ISFIFO(Path("pipe").stat().st_mode)


def test_junit_goes_to_the_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "--junit", "/dev/stdout"]) == PASSED
    printed = capfd.readouterr().out
    assert "<testsuites>" in printed
    # What is printed behind it, and before, is still there.
    assert printed.splitlines()[-1] == "report: out/index.html"


def test_junit_of_an_earlier_run_is_gone_where_a_run_does_not_come_to_its_end() -> None:
    Path("junit.xml").write_text("of an earlier run", encoding="utf-8")
    assert main(["run", "word_count", "--system", "simulated", "--out", "junit.xml/out"]) == USAGE
    prepare_file(Path("junit.xml"))
    assert not Path("junit.xml").exists()


@pytest.mark.parametrize(("path", "reason"), [(".", "Is a directory"), ("/dev/full", "No space left")])
def test_file_that_cannot_be_written_is_one_line(path: str, reason: str) -> None:
    with pytest.raises(OutputUnwritable, match=reason):
        write_file(Path(path), b"<testsuites/>")


def test_folder_in_place_of_a_file_is_refused_before_the_work() -> None:
    with pytest.raises(OutputUnwritable, match="Is a directory"):
        prepare_file(Path())


@pytest.mark.parametrize(("scenarios", "workers"), [(1, 1), (3, 3)])
def test_run_has_no_more_processes_than_scenarios(scenarios: int, workers: int) -> None:
    result = run(RunPlan(("word_count",), scenarios=scenarios, workers=8))
    assert (result.workers, result.tally.scenarios) == (workers, scenarios)
