"""Several jobs and one folder, one job and several folders, and checkpoints that list what they must not."""

from __future__ import annotations

import os
import shutil

import pytest

from onceproof.engine.connectors.commit_ledger import entry_of
from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.file_sink import FileSink
from onceproof.engine.connectors.part_files import (
    FileSinkBroken,
    Mark,
    OutputFileConfig,
    hidden_name,
    mark_of,
)
from onceproof.engine.file_calls import SystemFileCalls


@pytest.fixture
def new_job(sink_job, tmp_path):
    """Makes a job with a file sink."""

    def make(job_id, prefix="part", suffix="", folder="out"):
        config = OutputFileConfig(prefix, suffix)
        builder = FileSink.for_row_format(str(tmp_path / folder), Encoder.simple_string_encoder())
        return sink_job(builder.with_output_file_config(config).build().create_function, job_id)

    return make


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def rows(folder):
    names = [name for name in os.listdir(folder) if not name.startswith(".")]
    return sorted(row for name in names for row in (folder / name).read_text().split())


def hidden(folder):
    return [name for name in os.listdir(folder) if name.startswith(".") and entry_of(name) is None]


def prepare(job, *values, checkpoint_id=1):
    """Start a job that pre-commits values and dies before it commits them.

    It is a first process, as those are that start beside it: only the owner tells its files from theirs.
    """
    job.start(attempt="1.77").invoke_batch(list(values))
    job.snapshot(checkpoint_id)
    job.functions.clear()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("part", ""), ("part", "")),
        (("part", ""), ("part-1", "")),
        (("part", ""), ("part-0-9", "")),
        (("part", ".csv"), ("part", ".csv.csv")),
        (("part", ""), ("part", "-0-9-9.9")),
        (("part", ""), ("part", ".ae6a53ab3c127968-0-9-9.9.inprogress")),
    ],
)
def test_two_jobs_in_one_folder_lose_nothing(new_job, out, one, other):
    theirs, ours = new_job("theirs", *other), new_job("ours", *one)
    prepare(theirs, "their-1")
    ours.start().invoke("our-1", None)
    ours.snapshot(1)
    ours.notify(1)
    ours.start(restored=1).invoke("lost with its attempt", None)
    ours.snapshot(2)
    ours.start(restored=1)
    theirs.start(restored=1)
    assert rows(out) == ["our-1", "their-1"]
    assert hidden(out) == []


def test_job_beside_its_earlier_run_loses_nothing(new_job, out):
    first, second = new_job("orders"), new_job("orders")
    first.scope, second.scope = "a folder", "another folder"
    prepare(first, "first")
    second.start().invoke("second", None)
    second.snapshot(1)
    second.start(restored=1)
    first.start(restored=1)
    assert rows(out) == ["first", "second"]


def at_one_place(*jobs):
    for number, job in enumerate(jobs):
        job.scope = f"owner-{number}\0/checkpoints/orders"


@pytest.mark.parametrize("settled", [False, True])
def test_job_whose_checkpoint_folder_vanished_does_not_begin_beside_its_output(new_job, out, settled):
    first, second = new_job("orders"), new_job("orders")
    at_one_place(first, second)
    first.start().invoke("first", None)
    first.snapshot(1)
    first.notify(1)
    with pytest.raises(FileSinkBroken, match=r"has output of an earlier run of this job .* to begin anew"):
        second.start(settled=settled)
    assert rows(out) == ["first"]
    second.checkpoints = first.checkpoints
    second.start(restored=1)
    first.start(restored=1)


def test_job_begins_anew_where_its_output_was_moved_away_or_had_ended(new_job, out):
    first, second, third = new_job("orders"), new_job("orders"), new_job("orders")
    at_one_place(first, second, third)
    first.start().invoke("first", None)
    first.snapshot(1)
    first.notify(1)
    for name in os.listdir(out):
        if not name.startswith("."):
            os.unlink(out / name)
    sink = second.start()
    sink.invoke("second", None)
    sink.finish()
    second.snapshot(1)
    second.notify(1)
    third.start()
    assert rows(out) == ["second"]


def test_two_jobs_from_one_savepoint_commit_its_transactions_once(new_job, out):
    job = new_job("before")
    prepare(job, "pending")
    for name in ("one", "other"):
        heir = new_job(name)
        heir.checkpoints = job.checkpoints
        heir.start(restored=1).invoke(name, None)
        heir.snapshot(2)
        heir.notify(2)
    assert rows(out) == ["one", "other", "pending"]
    assert hidden(out) == []


def test_open_transaction_of_a_living_job_survives_a_restore_of_its_savepoint(new_job, out):
    living, heir = new_job("living"), new_job("heir")
    living.start().invoke("before", None)
    living.snapshot(1)
    living.functions[0].invoke("after", None)
    heir.checkpoints = living.checkpoints
    heir.start(restored=1)
    living.snapshot(2)
    living.notify(2)
    assert rows(out) == ["after", "before"]


def test_pending_transaction_is_committed_in_the_folder_where_it_was_prepared(new_job, out, tmp_path):
    job, heir = new_job("one"), new_job("other", folder="elsewhere")
    prepare(job, "pending")
    heir.checkpoints = job.checkpoints
    heir.start(restored=1).invoke("new", None)
    heir.snapshot(2)
    heir.notify(2)
    assert rows(out) == ["pending"]
    assert rows(tmp_path / "elsewhere") == ["new"]


def test_pending_transaction_is_found_in_a_folder_that_was_moved(new_job, out, tmp_path):
    job, heir = new_job("one"), new_job("one", folder="moved")
    prepare(job, "pending")
    out.rename(tmp_path / "moved")
    heir.checkpoints = job.checkpoints
    heir.start(restored=1)
    assert rows(tmp_path / "moved") == ["pending"]
    assert not out.exists()


@pytest.mark.parametrize("committed_before", [False, True])
def test_pending_transaction_in_a_copied_folder_is_committed_there_too(
    new_job, out, tmp_path, committed_before
):
    job, heir = new_job("one"), new_job("one", folder="copy")
    prepare(job, "pending")
    shutil.copytree(out, tmp_path / "copy")
    heir.checkpoints = job.checkpoints
    if committed_before:
        job.start(restored=1)
    heir.start(restored=1)
    assert rows(out) == rows(tmp_path / "copy") == ["pending"]


@pytest.mark.parametrize("is_copy", [False, True])
def test_commit_that_died_between_its_two_names_is_completed(new_job, out, is_copy):
    job = new_job("one")
    prepare(job, "pending")
    [name] = hidden(out)
    visible = name[1:].rpartition(".inprogress")[0].removesuffix(f".{mark_text(name)}")
    (shutil.copy if is_copy else os.link)(out / name, out / visible)
    job.start(restored=1)
    assert rows(out) == ["pending"]
    assert hidden(out) == []


def mark_text(name):
    mark = mark_of(name)
    return f"{mark.owner}-{mark.subtask}-{mark.epoch}-{mark.attempt}"


def test_other_job_that_commits_at_the_same_moment_is_no_error(new_job, out, monkeypatch):
    job, heir = new_job("one"), new_job("other")
    prepare(job, "pending")
    heir.checkpoints = job.checkpoints
    rename = SystemFileCalls.rename

    def late(self, source, target):
        monkeypatch.setattr(SystemFileCalls, "rename", rename)
        job.start(restored=1)
        rename(self, source, target)

    monkeypatch.setattr(SystemFileCalls, "rename", late)
    heir.start(restored=1)
    assert rows(out) == ["pending"]


def test_files_of_version_0_2_are_committed_and_aborted(new_job, out):
    sink = new_job("one").start()
    for name in (".part-0-0-1.1.inprogress", ".part-0-1-1.1.inprogress"):
        (out / name).write_text("row\n")
    sink.commit(["part-0-0-1.1", 4])
    sink.commit(["part-0-0-1.1", 4])
    sink.abort(["part-0-1-1.1", -1])
    assert os.listdir(out) == ["part-0-0-1.1"]


MARK = Mark("0123456789abcdef", 0, 0, "1.1")
FORGED = {
    "a way out of the folder": ["../part", 4, "/tmp", hidden_name("../part", MARK)],
    "a hidden name": [".profile", 4, "/tmp", hidden_name(".profile", MARK)],
    "a name of another file": ["part", 4, "/tmp", hidden_name("other", MARK)],
    "a file without a mark": ["part", 4, "/tmp", ".part.inprogress"],
    "a relative folder": ["part", 4, "tmp", hidden_name("part", MARK)],
    "a folder with a NUL": ["part", 4, "/tmp\0", hidden_name("part", MARK)],
    "a length that is not a number": ["part", "4", "/tmp", hidden_name("part", MARK)],
    "a folder that is not text": ["part", 4, 7, hidden_name("part", MARK)],
    "another sink's file by the names of 0.2": [f"part.{'0' * 16}-0-0-1.1", 4],
    "a name that is not text, by the names of 0.2": [7, 4],
}


@pytest.mark.parametrize("transaction", FORGED.values(), ids=FORGED.keys())
def test_forged_transaction_is_refused_before_any_file_is_touched(new_job, transaction):
    sink = new_job("one").start()
    with pytest.raises(FileSinkBroken, match=r"checkpoint .*is not ours"):
        sink.commit(transaction)
    with pytest.raises(FileSinkBroken, match=r"checkpoint .*is not ours"):
        sink.abort(transaction)


def test_forged_transaction_reaches_no_file_but_a_part_file_of_that_length(new_job, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    name = hidden_name("part", MARK)
    secret = tmp_path / "secret"
    secret.write_text("row\n")
    sink = new_job("one").start()
    (victim / name).symlink_to(secret)
    with pytest.raises(FileSinkBroken, match="is a link or a folder"):
        sink.commit(["part", 4, str(victim), name])
    (victim / name).unlink()
    (victim / name).write_text("longer")
    sink = new_job("one").start()
    with pytest.raises(FileSinkBroken, match="has 6 bytes, the checkpoint lists 4"):
        sink.commit(["part", 4, str(victim), name])
    sink.abort(["part", 6, str(victim), name])
    assert [each for each in os.listdir(victim) if entry_of(each) is None] == [name]


def test_names_are_read_from_the_right():
    inner = hidden_name("part", MARK)
    outer = Mark("f" * 16, 3, 4, "5.6")
    assert mark_of(hidden_name(inner[1:], outer)) == outer
    assert mark_of(inner) == MARK
    assert mark_of(f"{inner}.bak") is None
    assert mark_of(inner.replace("-0-0-", "-0--0-")) is None


def test_affixes_that_leave_no_room_for_the_name_are_refused():
    OutputFileConfig("p" * 110, "s" * 10)
    with pytest.raises(ValueError, match="have 121 bytes together: at most 120"):
        OutputFileConfig("p" * 111, "s" * 10)
