"""A name stands for one job in its checkpoint directory; a job without one begins anew each time."""

from __future__ import annotations

import errno
import logging
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from onceproof.engine import (
    Configuration,
    CsvSource,
    FileSink,
    InvalidJob,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)
from onceproof.engine.api.job_client import SavepointFailed
from onceproof.engine.api.submission import submitted
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.file_calls import SystemFileCalls
from onceproof.engine.runtime import job_startup
from onceproof.engine.runtime.job_identity import MOST_UNNAMED, OtherProgram, check_identity
from onceproof.engine.runtime.job_registry import MOST_BYTES, REGISTRY, JobRecord, JobRegistry
from onceproof.engine.runtime.job_result import JobExecutionFailed
from onceproof.engine.runtime.recovery import FINISHED, INCARNATION, METADATA
from onceproof.engine.runtime.remote_storage import RemoteCheckpointStorage
from onceproof.engine.state.file_envelope import DamagedFile
from onceproof.harness.commands.cli import main
from tests.patience import PATIENCE_SECONDS


class Total(KeyedProcessFunction):
    """A running total that fails at a value."""

    def __init__(self, fails_at=None):
        self.fails_at = fails_at

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        if value[1] == self.fails_at:
            raise ValueError("planned")
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        yield value[0], total


class Largest(Total):
    """The function of another program."""


class Waits(Total):
    """A slow function, so that the job is stopped before its end."""

    def process_element(self, value, ctx):
        time.sleep(0.05)
        yield from super().process_element(value, ctx)


SALES = [("north", number) for number in range(1, 56)]
ORDERS = [("north", 100 * number) for number in range(1, 71)]


class Programs:
    """Programs that share a checkpoint directory; each run is one of a process."""

    def __init__(self, folder):
        self.folder = folder
        self.directory = str(folder / "checkpoints")
        self.registry = JobRegistry(self.directory)
        self.outputs = 0

    def environment(self, **options):
        settings = {
            "execution.checkpointing.interval-records": 10,
            "execution.checkpointing.dir": self.directory,
            "execution.checkpointing.savepoint-dir": str(self.folder / "savepoints"),
            "pipeline.buffer-records": 1,
            "restart-strategy.type": "none",
        }
        settings.update({key.replace("__", ".").replace("_", "-"): value for key, value in options.items()})
        return StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(settings))

    @property
    def output(self):
        return self.folder / f"out-{self.outputs}"

    def to_another_folder(self):
        """Let later runs write into a folder of their own, as a file sink demands of another job."""
        self.outputs += 1
        return self

    def describe(self, records, function=None, uid=None, source=None, **options):
        env = self.environment(**options)
        stream = env.from_source(source or CollectionSource({"0": [(each, None) for each in records]}))
        totals = stream.key_by(lambda pair: pair[0], Types.STRING()).process(function or Total())
        if uid:
            totals = totals.uid(uid)
        sink = FileSink.for_row_format(str(self.output), Encoder.simple_string_encoder()).build()
        totals.sink_to(sink)
        return env

    @contextmanager
    def process(self, program="first.py"):
        with submitted(Configuration(), lambda graph: None, program):
            yield

    def run(self, records, *arguments, name="orders", program="first.py", **options):
        with self.process(program):
            return self.describe(records, *arguments, **options).execute(name)

    def failed(self, records=SALES, at=50, **options):
        with pytest.raises(JobExecutionFailed, match="planned"):
            self.run(records, Total(at), **options)

    def rows(self):
        files = [path for path in self.output.iterdir() if not path.name.startswith(".")]
        return [line for path in files for line in path.read_text().splitlines()]

    @property
    def record(self):
        [path] = (self.folder / "checkpoints" / REGISTRY).iterdir()
        return path


@pytest.fixture
def programs(tmp_path):
    return Programs(tmp_path)


def test_the_same_program_goes_on_under_its_name(programs):
    programs.failed()
    result = programs.run(SALES)
    assert result.records_read < len(SALES)
    assert len(programs.rows()) == len(SALES)


def test_another_program_under_the_name_is_refused_with_the_ways_to_go_on(programs):
    programs.failed()
    before = sorted(path for path in programs.folder.rglob("*") if path.is_file())
    with pytest.raises(OtherProgram) as refused:
        programs.run(ORDERS, program="second.py")
    line = str(refused.value)
    assert "\n" not in line
    assert line.startswith(
        f"the name 'orders' belongs to another job in {programs.directory} (program first.py)"
    )
    assert "source 'source' reads a collection whose first records have the digest" in line
    assert "give this job another name, or restore that state on purpose (--from " in line
    assert sorted(path for path in programs.folder.rglob("*") if path.is_file()) == before
    programs.to_another_folder().run(ORDERS, name="other orders", program="second.py")
    assert f"('north', {sum(value for _, value in ORDERS)})" in programs.rows()


def test_another_program_at_an_address_is_refused_and_its_jobs_are_listed(programs):
    programs.directory = f"memory://{programs.folder.name}"
    programs.failed()
    with pytest.raises(OtherProgram, match=r"restore that state on purpose \(--from memory://"):
        programs.run(ORDERS)
    assert programs.run(SALES).records_read < len(SALES)
    [job] = JobRegistry(programs.directory).jobs()
    assert (job.state, job.last_checkpoint, job.record.identity) == ("finished", "", "orders")


def test_another_program_that_began_meanwhile_at_an_address_is_not_mixed_in(programs, monkeypatch):
    programs.directory = f"memory://{programs.folder.name}"
    checked = []

    def check_before_the_other(graph, storage):
        checked.append(graph.name)
        if len(checked) == 1:
            # The other program begins, and takes checkpoints, between the check and the claim.
            programs.failed()
        else:
            check_identity(graph, storage)

    monkeypatch.setattr(job_startup, "check_identity", check_before_the_other)
    with pytest.raises(OtherProgram, match="the name 'orders' belongs to another job"):
        programs.to_another_folder().run(ORDERS, program="second.py")
    monkeypatch.undo()
    assert programs.to_another_folder().run(SALES).records_read < len(SALES)


def test_jobs_are_listed_beside_one_whose_record_or_folder_cannot_be_read(programs, monkeypatch):
    programs.run(ORDERS)
    root = Path(programs.directory)
    [job] = JobRegistry(programs.directory).jobs()
    (root / REGISTRY / f"{'a' * 32}.json").mkdir()
    (root / ("a" * 32)).mkdir()
    (root / ("a" * 32) / FINISHED).touch()
    (root / ("b" * 32)).mkdir()
    entries = SystemFileCalls.entries

    def refused(self, folder):
        if folder.endswith("b" * 32):
            raise PermissionError(errno.EACCES, "Permission denied", folder)
        return entries(self, folder)

    monkeypatch.setattr(SystemFileCalls, "entries", refused)
    listed = {each.job_id: each for each in JobRegistry(programs.directory).jobs()}
    assert listed[job.job_id] == job
    assert "cannot be read: Is a directory" in listed["a" * 32].damage
    assert "cannot be listed: Permission denied" in listed["b" * 32].damage


def killed_at_an_address(programs, job_id="ab" * 16):
    """Leave what a killed process of a job leaves at an address; return its record."""
    programs.directory = f"memory://{programs.folder.name}"
    storage = RemoteCheckpointStorage(programs.directory)
    storage.create_exclusive(f"{job_id}/{INCARNATION}1")
    storage.write(f"{job_id}/chk-3/{METADATA}", b"")
    record = JobRecord(job_id, "orders", "running", "first.py", 1000, 1, (), "orders")
    JobRegistry(programs.directory).write(record)
    return record


def test_a_killed_job_at_an_address_is_listed_with_its_last_sign_of_life(programs, capsys):
    begun_ms = time.time() * 1000
    killed_at_an_address(programs)
    [job] = JobRegistry(programs.directory).jobs()
    assert job.state == "running"
    assert begun_ms - 1000 <= job.last_sign_ms <= time.time() * 1000 + 1000
    assert main(["job", "list", programs.directory]) == 0
    assert ", running, or killed: last sign of life at 2" in capsys.readouterr().out
    assert main(["job", "list", programs.directory, "--json"]) == 0
    assert f'"last_sign_of_life_ms":{job.last_sign_ms}' in capsys.readouterr().out


def test_a_job_at_an_address_whose_store_knows_no_times_has_its_submission(programs, monkeypatch):
    killed_at_an_address(programs)
    monkeypatch.delattr(MemoryFileSystem, "modified")
    [job] = JobRegistry(programs.directory).jobs()
    assert job.last_sign_ms == 1000


def test_a_huge_record_at_an_address_is_refused_before_it_is_read(programs, monkeypatch):
    record = killed_at_an_address(programs)
    path = f"{REGISTRY}/{record.job_id}.json"
    RemoteCheckpointStorage(programs.directory).write(path, b" " * (MOST_BYTES + 1))
    monkeypatch.setattr(RemoteCheckpointStorage, "read", lambda storage, path: pytest.fail(f"{path} is read"))
    [job] = JobRegistry(programs.directory).jobs()
    assert "a record of a job has no 16777217 bytes" in job.damage


def test_the_checkpoint_that_the_refusal_names_restores_on_purpose(programs):
    programs.failed()
    with pytest.raises(OtherProgram) as refused:
        programs.run(ORDERS)
    path = str(refused.value).partition("--from ")[2].partition(",")[0]
    result = programs.run(ORDERS, execution__state_recovery__path=path)
    assert 0 < result.records_read < len(ORDERS)
    # The name belongs to the new program from then on.
    with pytest.raises(OtherProgram):
        programs.run(SALES, execution__state_recovery__path=path)


def test_another_program_under_the_name_of_a_finished_job_is_refused(programs):
    programs.run(SALES)
    assert programs.run(SALES).already_finished
    with pytest.raises(OtherProgram, match=r"give this job another name$"):
        programs.run(ORDERS)
    with pytest.raises(OtherProgram, match="reads 54 records, not 55 records"):
        programs.run(SALES[:-1])


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_corrected_input_and_a_new_version_go_on(programs, parallelism):
    programs.failed(uid="totals")
    corrected = [(key, 7 if value == 50 else value) for key, value in SALES]
    result = programs.run(corrected, Largest(50), uid="totals", parallelism__default=parallelism)
    assert 0 < result.records_read < len(SALES)


def test_another_program_with_the_same_beginning_of_its_input_is_refused(programs):
    programs.failed()
    with pytest.raises(OtherProgram, match="reads 57 records, not 55 records"):
        programs.run([*SALES, ("south", 1), ("south", 2)], program="second.py")


def test_a_job_that_failed_before_its_first_checkpoint_may_be_changed_at_will(programs):
    programs.failed(at=3)
    assert programs.run(ORDERS).records_read == len(ORDERS)


def test_an_operator_with_state_may_not_get_lost(programs):
    programs.failed(uid="totals")
    with pytest.raises(OtherProgram, match=r"operator 'totals' .* with state total \(keyed\) is missing"):
        programs.run(SALES, uid="sums")
    options = {"execution__state_recovery__ignore_unclaimed_state": True}
    assert programs.run(SALES, uid="sums", **options).records_read < len(SALES)


def test_another_function_in_the_place_of_one_without_uid_is_refused(programs):
    programs.failed()
    what = r"\(function Largest\) stands in the place of .* \(function Total\) with state total \(keyed\)"
    with pytest.raises(OtherProgram, match=what):
        programs.run(SALES, Largest())


def test_other_files_under_the_name_are_refused(programs, tmp_path):
    schema = [("shop", Types.STRING()), ("cents", Types.LONG())]
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("shop,cents\n" + "".join(f"{key},{value}\n" for key, value in SALES))
    programs.failed(source=CsvSource(str(tmp_path / "a.csv"), schema))
    with pytest.raises(OtherProgram, match=r"reads CsvFormat files .*b\.csv, not CsvFormat files .*a\.csv"):
        programs.run((), source=CsvSource(str(tmp_path / "b.csv"), schema))
    wider = CsvSource(str(tmp_path / "a.csv"), schema, nullable=["cents"])
    assert programs.run((), source=wider).records_read < len(SALES)


def test_a_job_without_its_record_is_compared_with_its_checkpoint(programs):
    programs.failed(uid="totals")
    programs.record.unlink()
    with pytest.raises(OtherProgram, match="operator 'totals' with state total"):
        programs.run(SALES, uid="sums")
    assert programs.run(SALES, uid="totals").records_read < len(SALES)


FORGERIES = {
    "nested": (lambda data: b"[" * 100_000, "cannot be read"),
    "truncated": (lambda data: data[:-5], "cannot be read"),
    "unknown state": (lambda data: data.replace(b'"failed"', b'"rich"'), "cannot be read"),
    "large number": (lambda data: data.replace(b'tion":1', b'tion":99999999999999999999'), "cannot be read"),
    "other id": (lambda data: data.replace(b'"job_id":"', b'"job_id":"../'), "the record of another job"),
    "large": (lambda data: b" " * (1 << 24) + data, "a record of a job has no"),
}


@pytest.mark.parametrize(("change", "what"), FORGERIES.values(), ids=FORGERIES)
def test_a_damaged_or_forged_record_is_an_error_of_one_line(programs, change, what):
    programs.failed()
    programs.record.write_bytes(change(programs.record.read_bytes()))
    with pytest.raises(DamagedFile, match=what) as refused:
        programs.run(SALES)
    assert str(refused.value).startswith(f"{programs.record}: ")
    assert "\n" not in str(refused.value)
    [job] = programs.registry.jobs()
    assert job.damage
    assert job.last_checkpoint


def test_a_link_in_place_of_a_record_is_not_followed(programs, tmp_path):
    programs.failed()
    record = programs.record
    record.rename(tmp_path / "elsewhere")
    record.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="is a symbolic link"):
        programs.run(SALES)


def test_two_executions_of_one_name_in_a_program_are_refused(programs):
    with programs.process():
        programs.describe(SALES).execute("orders")
        env = programs.describe(ORDERS)
        with pytest.raises(InvalidJob, match=r"^job 'orders' is executed a second time by this program"):
            env.execute("orders")
        assert programs.to_another_folder().describe(ORDERS).execute("more orders").records_read == len(
            ORDERS
        )


def stopped(client):
    """Stop a job as soon as all its tasks run, and return the savepoint."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return client.stop_with_savepoint(False).result(PATIENCE_SECONDS)
        except SavepointFailed:
            assert time.monotonic() < until
            time.sleep(0.02)


def test_a_name_is_executed_again_after_a_failure_or_a_stop(programs):
    with programs.process():
        with pytest.raises(JobExecutionFailed):
            programs.describe(SALES, Total(30), uid="totals").execute("orders")
        client = programs.describe(SALES, Waits(), uid="totals").execute_async("orders")
        savepoint = stopped(client)
        client.get_job_execution_result().result(PATIENCE_SECONDS)
        [job] = programs.registry.jobs()
        assert (job.state, job.last_checkpoint) == ("suspended", savepoint)
        assert programs.describe(SALES, uid="totals").execute("orders").records_read < len(SALES)
    assert len(programs.rows()) == len(SALES)


def test_a_job_without_a_name_begins_anew_and_says_where_the_last_one_is(programs, caplog):
    caplog.set_level(logging.INFO)
    programs.failed(name=None)
    assert "has no name: its id" in caplog.text
    [left] = programs.registry.jobs()
    assert left.last_checkpoint
    result = programs.to_another_folder().run(SALES, name=None)
    assert result.job_id != left.job_id
    assert result.records_read == len(SALES)
    [warning] = [each.getMessage() for each in caplog.records if "begins anew" in each.getMessage()]
    assert f"(id {left.job_id}, failed) restore {left.last_checkpoint} (--from" in warning
    path, programs.outputs = left.last_checkpoint, 0
    assert programs.run(SALES, name=None, execution__state_recovery__path=path).records_read < len(SALES)


def test_another_program_without_a_name_hears_nothing_of_the_first(programs, caplog):
    programs.failed(name=None)
    programs.to_another_folder().run(ORDERS, name=None, program="second.py")
    assert "begins anew" not in caplog.text


def test_two_executions_without_a_name_are_two_jobs(programs):
    with programs.process():
        first = programs.describe(SALES).execute()
        second = programs.to_another_folder().describe(ORDERS).execute()
    assert first.job_id != second.job_id
    assert (first.records_read, second.records_read) == (len(SALES), len(ORDERS))


def test_only_the_last_ended_jobs_without_a_name_stay_in_the_registry(programs, monkeypatch):
    monkeypatch.setattr("onceproof.engine.runtime.job_identity.MOST_UNNAMED", 2)
    for _ in range(5):
        programs.to_another_folder().run(SALES[:3], name=None)
    assert len(programs.registry.jobs()) == 3
    assert len(list((programs.folder / "checkpoints").iterdir())) == 3 + len([REGISTRY])
    assert MOST_UNNAMED == 100


def test_the_cluster_id_names_the_job_whatever_the_program_calls_it(programs):
    option = {"high_availability__cluster_id": "shop"}
    with pytest.raises(JobExecutionFailed):
        programs.run(SALES, Total(50), name="first name", **option)
    result = programs.run(SALES, name="second name", **option)
    assert result.records_read < len(SALES)
    [job] = programs.registry.jobs()
    assert (job.record.identity, job.record.name) == ("shop", "second name")
    assert programs.run(SALES, name="shop").already_finished


def test_the_registry_tells_how_each_job_has_ended(programs):
    programs.failed(name="failing")
    programs.to_another_folder().run(SALES, name="finishing")
    with programs.process():
        client = programs.to_another_folder().describe(SALES, Waits(), uid="waits").execute_async("cancelled")
        assert programs.registry.jobs()[-1].state == "running"
        client.cancel().result(PATIENCE_SECONDS)
        with pytest.raises(JobExecutionFailed):
            client.get_job_execution_result().result(PATIENCE_SECONDS)
    states = {job.record.name: job.state for job in programs.registry.jobs()}
    assert states == {"failing": "failed", "finishing": "finished", "cancelled": "cancelled"}
    [failed] = [job.record for job in programs.registry.jobs() if job.state == "failed"]
    assert "planned" in failed.failure


def test_a_job_whose_process_was_killed_is_suspended(job):
    job.stopped("completed", 1)
    [listed] = JobRegistry(str(job.checkpoints)).jobs()
    assert listed.record.state == "running"
    assert listed.state == "suspended"
    assert listed.last_checkpoint == str(job.directory / "chk-1")


def test_an_identity_that_is_none_is_an_error_that_names_the_source(programs):
    class Nameless(CollectionSource):
        def identity(self):
            return "orders"

    with pytest.raises(InvalidJob, match=r"^source 'source': identity\(\) of Nameless must return a Source"):
        programs.run((), source=Nameless({"0": []}))


def test_the_identity_of_a_collection_is_that_of_its_first_values():
    class Opaque:
        pass

    def identity(values):
        return CollectionSource.of_values(values).identity()

    assert identity(SALES).what == identity([*SALES[:10], ("other", 0)]).what
    assert identity(SALES).what != identity(ORDERS).what
    assert identity([1]).what != identity([1.0]).what != identity(["1"]).what
    assert identity([Opaque()]).what == identity([Opaque()]).what
    assert identity([{"a": [1, None]}]).what != identity([{"a": [1, 0]}]).what
    assert identity([]).extent == "0 records"
    nested = []
    nested.append(nested)
    assert identity([nested]) == identity([nested])
