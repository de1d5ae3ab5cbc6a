"""The file sink, call by call; its crashes are in test_file_sink_crashes."""

from __future__ import annotations

import os

import pytest

from onceproof.engine import file_calls
from onceproof.engine.connectors import part_files
from onceproof.engine.connectors.commit_ledger import KEPT, entry_of
from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.file_sink import FileSink
from onceproof.engine.connectors.part_files import FileSinkBroken, FileSinkFailed, OutputFileConfig
from onceproof.engine.connectors.two_phase import CommitFailed
from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.file_calls import SystemFileCalls

NAME = "part-ae6a53ab-0-0-1.1"
"""The first part file of a job without id and folder."""
HIDDEN = f".{NAME}.ae6a53ab3c127968-0-0-1.1.inprogress"


def lines_sink(folder, prefix="part", suffix=""):
    config = OutputFileConfig.builder().with_part_prefix(prefix).with_part_suffix(suffix).build()
    builder = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
    return builder.with_output_file_config(config).build()


@pytest.fixture
def job(sink_job, tmp_path):
    return sink_job(lines_sink(tmp_path / "out").create_function)


def visible(folder):
    return {
        name: (folder / name).read_text() for name in sorted(os.listdir(folder)) if not name.startswith(".")
    }


def hidden(folder):
    """The hidden files but for the entries of the ledger."""
    return sorted(name for name in os.listdir(folder) if name.startswith(".") and entry_of(name) is None)


def is_no_entry(name):
    return entry_of(name) is None


def hidden_of(subtask, epoch, owner="ae6a53ab3c127968"):
    name = f"part-{owner[:8]}-{subtask}-{epoch}-1.1"
    return f".{name}.{owner}-{subtask}-{epoch}-1.1.inprogress"


def test_rows_are_hidden_until_their_checkpoint_is_complete(job, tmp_path):
    out = tmp_path / "out"
    job.start().invoke("a", None)
    assert visible(out) == {}
    job.snapshot(1)
    assert visible(out) == {}
    assert hidden(out) == [HIDDEN]
    assert (out / HIDDEN).read_text() == "a\n"
    job.notify(1)
    assert visible(out) == {NAME: "a\n"}
    assert hidden(out) == []


def test_a_checkpoint_without_rows_makes_no_file_and_can_be_committed_and_restored(job, tmp_path):
    job.start()
    job.snapshot(1)
    job.notify(1)
    job.start(restored=1)
    assert os.listdir(tmp_path / "out") == []


def test_a_batch_and_single_rows_keep_their_order(job, tmp_path):
    sink = job.start()
    assert sink.invoke_batch(["a", "b"])
    sink.invoke("c", None)
    assert sink.invoke_batch(["d"])
    job.snapshot(1)
    job.notify(1)
    assert visible(tmp_path / "out") == {NAME: "a\nb\nc\nd\n"}


def test_more_rows_than_a_block_are_all_written(job, tmp_path, monkeypatch):
    monkeypatch.setattr(part_files, "BLOCK_BYTES", 64)
    sink = job.start()
    for begin in range(0, 1000, 10):
        sink.invoke_batch(list(range(begin, begin + 10)))
    job.snapshot(1)
    job.notify(1)
    assert visible(tmp_path / "out") == {NAME: "".join(f"{n}\n" for n in range(1000))}


def test_partial_write_of_a_block_is_continued(job, tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(file_calls.os, "write", lambda file, data: write(file, bytes(data[:3])))
    job.start().invoke_batch(["abcdef", "ghi"])
    job.snapshot(1)
    job.notify(1)
    assert visible(tmp_path / "out") == {NAME: "abcdef\nghi\n"}


def test_prefix_and_suffix_are_those_of_the_configuration(sink_job, tmp_path):
    job = sink_job(lines_sink(tmp_path, "flights", ".csv").create_function)
    job.start().invoke("a", None)
    assert hidden(tmp_path) == [HIDDEN.replace(NAME, "flights-ae6a53ab-0-0-1.1.csv")]
    job.snapshot(1)
    job.notify(1)
    assert visible(tmp_path) == {"flights-ae6a53ab-0-0-1.1.csv": "a\n"}


def test_close_deletes_the_open_file_and_keeps_pre_committed_ones(job, tmp_path):
    sink = job.start()
    sink.invoke("a", None)
    job.snapshot(1)
    sink.invoke("b", None)
    sink.close()
    assert hidden(tmp_path / "out") == [HIDDEN]


def test_a_commit_is_done_once_however_often_it_is_asked_for(job, tmp_path):
    job.start().invoke("a", None)
    job.snapshot(1)
    job.notify(1)
    job.start(restored=1)
    job.start(restored=1)
    assert visible(tmp_path / "out") == {NAME: "a\n"}


def test_a_lost_file_is_an_error_that_names_the_transaction(job, tmp_path):
    job.start().invoke("a", None)
    job.snapshot(1)
    os.unlink(tmp_path / "out" / HIDDEN)
    with pytest.raises(FileSinkFailed, match=rf"transaction {NAME} is lost: .*lists it with 2 bytes"):
        job.start(restored=1)


@pytest.mark.parametrize("is_moved", [True, False])
def test_a_file_that_a_consumer_has_taken_is_committed_and_not_lost(job, tmp_path, is_moved):
    out = tmp_path / "out"
    job.start().invoke("a", None)
    job.snapshot(1)
    job.notify(1)
    job.functions[0].invoke("b", None)
    job.snapshot(2)
    job.notify(2)
    for name in visible(out):
        if is_moved:
            (out / name).rename(tmp_path / name)
        else:
            (out / name).unlink()
    for restored in (1, 2, 1):
        job.start(restored=restored).invoke("c", None)
    assert visible(out) == {}
    assert [entry_of(name).epoch for name in os.listdir(out) if entry_of(name)] == [1]


@pytest.mark.parametrize("what", ["commit", "rename"])
def test_a_kill_around_the_commit_of_a_file_that_is_taken_at_once(job, tmp_path, monkeypatch, what):
    out = tmp_path / "out"
    job.start().invoke("a", None)
    job.snapshot(1)
    rename = SystemFileCalls.rename

    class Killed(BaseException):
        """The end of the process."""

    def killed(self, source, target):
        if what == "rename":
            rename(self, source, target)
            os.unlink(target)
        raise Killed

    monkeypatch.setattr(SystemFileCalls, "rename", killed)
    with pytest.raises(Killed):
        job.notify(1)
    monkeypatch.setattr(SystemFileCalls, "rename", rename)
    job.start(restored=1)
    assert visible(out) == ({} if what == "rename" else {NAME: "a\n"})


def test_a_file_lost_before_its_commit_stays_lost_whatever_is_committed_later(job, tmp_path):
    sink = job.start()
    sink.invoke("a", None)
    job.snapshot(1)
    sink.invoke("b", None)
    job.snapshot(2)
    os.unlink(tmp_path / "out" / HIDDEN)
    with pytest.raises(CommitFailed, match="is lost"):
        job.notify(2)
    assert visible(tmp_path / "out") == {}
    for _ in range(2):
        with pytest.raises(FileSinkBroken, match=rf"transaction {NAME} is lost"):
            job.start(restored=2)


def test_only_the_entries_of_the_latest_attempts_stay(job, tmp_path):
    job.start()
    for number in range(1, 2 * KEPT):
        job.functions[0].invoke("a", None)
        job.snapshot(number)
        job.notify(number)
        job.start(restored=number)
    entries = [entry for name in os.listdir(tmp_path / "out") if (entry := entry_of(name))]
    assert sorted(entry.epoch for entry in entries) == list(range(KEPT - 1, 2 * KEPT - 1))


@pytest.mark.parametrize("place", ["/checkpoints/job", ""], ids=["folder", "memory"])
def test_files_of_a_subtask_whose_input_has_ended_may_be_committed_again(job, tmp_path, place):
    """Another subtask may fail, and the job restore the same checkpoint."""
    job.scope = f"owner-token\0{place}"
    job.start().invoke("a", None)
    job.snapshot(1)
    job.notify(1)
    job.start(restored=1).invoke("b", None)
    job.functions[0].finish()
    job.snapshot(2)
    job.notify(2)
    entries = [entry for name in os.listdir(tmp_path / "out") if (entry := entry_of(name))]
    assert [entry.has_ended for entry in entries] == ([True, True] if place else [])
    for name in visible(tmp_path / "out"):
        (tmp_path / "out" / name).unlink()
    for _ in range(2):
        job.start(restored=2)


@pytest.mark.parametrize("committed", [False, True])
def test_a_torn_file_is_an_error_never_a_silent_loss(job, tmp_path, committed):
    job.start().invoke("abc", None)
    job.snapshot(1)
    if committed:
        job.notify(1)
    name = NAME if committed else HIDDEN
    (tmp_path / "out" / name).write_text("ab")
    with pytest.raises(FileSinkFailed, match=rf"is damaged: .*/{name} has 2 bytes, the checkpoint lists 4"):
        job.start(restored=1)


def test_the_output_of_an_earlier_run_is_never_overwritten(sink_job, tmp_path):
    first = sink_job(lines_sink(tmp_path).create_function)
    first.start().invoke("first", None)
    first.snapshot(1)
    first.notify(1)
    second = sink_job(lines_sink(tmp_path).create_function)
    sink = second.start()
    with pytest.raises(FileSinkFailed, match=r"earlier run of the job.*choose another folder"):
        sink.invoke("second", None)
    assert visible(tmp_path) == {NAME: "first\n"}


def test_a_hidden_file_of_the_same_name_is_one_clear_line(sink_job, tmp_path):
    (tmp_path / HIDDEN).write_text("theirs")
    sink = sink_job(lines_sink(tmp_path).create_function).start()
    with pytest.raises(FileSinkBroken, match=r"inprogress exists already, from an earlier run"):
        sink.invoke("mine", None)
    assert (tmp_path / HIDDEN).read_text() == "theirs"


@pytest.mark.parametrize("lost", [True, False])
def test_unrecoverable_errors_name_the_mend(job, tmp_path, lost):
    job.start().invoke("a", None)
    job.snapshot(1)
    hidden_file = tmp_path / "out" / HIDDEN
    if lost:
        hidden_file.unlink()
    else:
        hidden_file.write_text("")
    with pytest.raises(UnrecoverableError):
        job.start(restored=1)


def test_a_target_that_appears_before_the_commit_is_not_overwritten(job, tmp_path):
    job.start().invoke("mine", None)
    job.snapshot(1)
    (tmp_path / "out" / NAME).write_text("theirs")
    with pytest.raises(RuntimeError, match=f"exists already, but is not what transaction {NAME}"):
        job.notify(1)
    assert (tmp_path / "out" / NAME).read_text() == "theirs"


def test_leftovers_of_dead_attempts_are_deleted_and_other_files_stay(job, tmp_path):
    out = tmp_path / "out"
    sink = job.start()
    sink.invoke("kept", None)
    job.snapshot(3)
    sink.invoke("open", None)
    job.snapshot(4)  # never completes
    others = [
        hidden_of(0, 2),  # begun before the restored checkpoint: maybe another subtask's to commit
        hidden_of(0, 9, "0123456789abcdef"),  # another sink's
        f"{hidden_of(0, 9)}.bak",
        ".part-0-9-1.1.inprogress",
        "part-ae6a53ab-0-9-1.1",
    ]
    for name in others:
        (out / name).write_text("x")
    (out / hidden_of(7, 9)).write_text("x")  # of a subtask that no longer exists
    job.start(restored=3)
    assert sorted(filter(is_no_entry, os.listdir(out))) == sorted([*others, NAME])


def test_an_old_name_is_committed_after_the_prefix_has_changed(sink_job, tmp_path):
    job = sink_job(lines_sink(tmp_path, "old").create_function)
    job.start().invoke("a", None)
    job.snapshot(1)
    job.create_function = lines_sink(tmp_path, "new").create_function
    job.start(restored=1)
    assert visible(tmp_path) == {"old-ae6a53ab-0-0-1.1": "a\n"}


def test_a_folder_that_cannot_be_made_is_one_clear_line(sink_job, tmp_path):
    (tmp_path / "file").write_text("")
    job = sink_job(lines_sink(tmp_path / "file" / "out").create_function)
    with pytest.raises(FileSinkFailed, match=r"folder .*/file/out of the file sink cannot be used") as caught:
        job.start()
    assert "\n" not in str(caught.value)


def test_a_full_disk_is_one_clear_line(job, monkeypatch):
    def full(file, data):
        raise OSError(28, "No space left on device")

    job.start().invoke("a", None)
    monkeypatch.setattr(file_calls.os, "write", full)
    with pytest.raises(FileSinkFailed, match=rf"{NAME} in .* cannot be written: No space left on device"):
        job.snapshot(1)


def test_a_value_that_cannot_be_encoded_is_named(sink_job, tmp_path):
    sink = FileSink.for_row_format(str(tmp_path), Encoder.json_lines_encoder()).build()
    function = sink_job(sink.create_function).start()
    with pytest.raises(ValueError, match=r"value <object .*> cannot be written to .*object has no JSON form"):
        function.invoke_batch([1, object(), 2])


def test_a_name_that_leaves_the_folder_is_refused(job, tmp_path):
    sink = job.start()
    with pytest.raises(FileSinkFailed, match="is not a file name"):
        sink.commit(["../part", 3, str(tmp_path), HIDDEN])


@pytest.mark.parametrize("prefix", ["", ".part", "_part", "a/b"])
def test_a_prefix_that_readers_would_skip_is_refused(prefix):
    with pytest.raises(ValueError, match="part prefix"):
        OutputFileConfig(prefix, "")


def test_a_dead_attempt_leaves_no_open_file_behind(job):
    sink = job.start()
    sink.invoke_batch(["x" * part_files.BLOCK_BYTES])
    descriptor = sink._open_parts[""].file._descriptor
    os.fstat(descriptor)
    del sink
    job.functions.clear()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
