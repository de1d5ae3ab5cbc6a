"""`onceproof job watch`, and the commands that change a job over its REST API."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from onceproof.engine.runtime.job_requests import JobAnswer, JobRequest
from onceproof.engine.runtime.monitor.bounded_server import BoundedServer, Gate
from onceproof.engine.runtime.monitor.monitor_messages import Answered
from onceproof.engine.runtime.monitor.rest_api import JobBoard, RestApi
from onceproof.engine.runtime.monitor.rest_note import RestNote, note_path, read_note, write_note
from onceproof.engine.runtime.request_folder import JobNotRunning, NoAnswer
from onceproof.harness.commands.cli import main
from onceproof.harness.commands.job_watch import watch
from onceproof.harness.commands.rest_client import TOKEN_VARIABLE, RestClient, RestRefused
from onceproof.harness.model.exit_codes import UsageError
from tests.engine.runtime.monitor.views import JOB_ID, checkpoint, earlier_view, job_view
from tests.patience import PATIENCE_SECONDS

PROGRAM = """
import time
from onceproof.engine import *

options = {
    "execution.checkpointing.interval": "100 ms",
    "execution.checkpointing.dir": "checkpoints",
    "execution.checkpointing.savepoint-dir": "savepoints",
    "metrics.fetcher.update-interval": "50 ms",
}
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
numbers = DataGeneratorSource(lambda index: index, None, RateLimiterStrategy.per_second(200))
env.from_source(numbers, None, "numbers").map(str).name("texts").print()
env.execute("watched")
"""


class FakeJob:
    """A job that shows a view by hand, and answers each change with ``answer``."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []
        self.board = JobBoard(self.take)
        self.board.show(earlier_view())
        self.board.show(job_view())
        api = RestApi(self.board, Gate(("127.0.0.1",), "secret", guards_reading=False), b"page")
        self.server = BoundedServer(socket.create_server(("127.0.0.1", 0)), api.respond)
        self.address = f"http://127.0.0.1:{self.server.socket.getsockname()[1]}"

    def take(self, number, request):
        self.asked.append(request)
        if request.kind == "cancel":
            self.board.show(job_view(state="CANCELED"))
        self.board.answered(Answered(number, self.answer.savepoint, self.answer.error))


@pytest.fixture
def job():
    made = FakeJob(JobAnswer("/sp/savepoint-1"))
    threading.Thread(target=made.server.serve_forever, args=(0.02,), daemon=True).start()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.mark.parametrize("kind", ["savepoint", "stop", "cancel", "cancel_with_savepoint"])
def test_each_change_reaches_the_job_with_its_folder(job, kind):
    client = RestClient.of_address(f"{job.address}/#token=secret")
    request = JobRequest(kind, "" if kind == "cancel" else "/sp", drains=kind == "stop")
    assert client.change(request, PATIENCE_SECONDS) == JobAnswer(
        "" if kind == "cancel" else "/sp/savepoint-1"
    )
    assert job.asked == [request]


def test_the_commands_print_the_lines_of_flink(job, capsys, monkeypatch):
    monkeypatch.setenv(TOKEN_VARIABLE, "secret")
    assert main(["job", "savepoint", job.address]) == 0
    assert main(["job", "stop", job.address]) == 0
    assert main(["job", "cancel", job.address]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Savepoint completed. Path: /sp/savepoint-1",
        "Savepoint completed. Path: /sp/savepoint-1",
        f"Cancelled job {JOB_ID}.",
    ]


def test_a_refused_change_is_one_line_and_exit_code_1(job, capsys, monkeypatch):
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert main(["job", "stop", job.address]) == 1
    job.answer = JobAnswer(error="there is no savepoint: no room")
    assert main(["job", "stop", f"{job.address}#token=secret"]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert "this needs the job's token" in first
    assert second == "there is no savepoint: no room"
    assert len(job.asked) == 1


def test_watch_shows_the_job_in_one_picture(job, capsys):
    console = Console(width=110, force_terminal=False)
    assert watch(RestClient.of_address(job.address), 1.0, once=True, console=console) == 0
    shown = capsys.readouterr().out
    assert "orders & <i>prices</i>  RUNNING" in shown
    assert [line.split() for line in shown.splitlines() if line.startswith("shop ")] == [
        ["shop", "1", "4,000", "200", "200", "20%", "50%", "-", "2.0", "s"]
    ]
    assert "checkpoints: 2 completed, 1 failed" in shown
    assert "failed: DECLINED" in shown
    assert "shop-0: ValueError: no <b>shop</b>" in shown
    assert [line.split() for line in shown.splitlines() if line.startswith("files-0 ")] == [
        ["files-0", "1", "2", "9", "4", "ms"]
    ]


def test_texts_of_a_job_control_no_terminal(job, capsys):
    failed = checkpoint(9, "FAILED", failure="\x1b[2Jgone")
    seen = job_view().checkpoints
    job.board.show(
        job_view(
            name="\x1b[31mred\x07 [bold]loud[/bold]",
            checkpoints=type(seen)(*[*_fields(seen)[:4], (failed,), *_fields(seen)[5:]]),
        )
    )
    watch(RestClient.of_address(job.address), 1.0, once=True, console=Console(width=110))
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "[bold]loud[/bold]" in shown


def _fields(struct):
    return [getattr(struct, name) for name in struct.__struct_fields__]


@pytest.mark.parametrize(
    "address",
    [
        "http://",
        "http://127.0.0.1",
        "https://127.0.0.1:1",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:1/jobs",
    ],
)
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(UsageError, match="give it as http://HOST:PORT"):
        RestClient.of_address(address)


def test_an_address_without_a_job_is_one_line_and_exit_code_4(capsys):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert main(["job", "watch", f"http://127.0.0.1:{port}"]) == 4
    assert "no job answers there: has it ended?" in capsys.readouterr().err
    with pytest.raises(JobNotRunning):
        RestClient.of_address(f"http://127.0.0.1:{port}").get("/jobs")


def test_a_server_that_is_no_job_is_one_line():
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer():
            connection, _ = other.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(NoAnswer, match="is no REST API of a job"):
            RestClient.of_address(f"http://127.0.0.1:{other.getsockname()[1]}").get("/jobs")


def test_an_error_of_the_api_is_one_line(job):
    with pytest.raises(RestRefused, match="has no vertex") as refused:
        RestClient.of_address(job.address).of_job("/vertices/x")
    assert "\n" not in str(refused.value)


def test_a_note_is_for_its_owner_only_and_a_damaged_one_is_none(tmp_path):
    path = note_path(tmp_path)
    write_note(path, RestNote("http://127.0.0.1:1", "secret", 7))
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_note(tmp_path) == RestNote("http://127.0.0.1:1", "secret", 7)
    for damaged in (b"{", b'{"url": 1}', b"\xff" * 99):
        path.write_bytes(damaged)
        assert read_note(tmp_path) is None
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_bytes(msgspec.json.encode(RestNote("http://127.0.0.1:1", "a", 7)))
    assert read_note(tmp_path) is None


def test_a_running_program_is_watched_listed_and_stopped_by_its_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text(PROGRAM)
    codes = []
    command = ["job", "run", "--rest", "0", "program.py"]
    running = threading.Thread(target=lambda: codes.append(main(command)), daemon=True)
    running.start()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (notes := list(Path("checkpoints").glob("*/requests/rest.json"))):
        assert running.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    note = msgspec.json.decode(notes[0].read_bytes(), type=RestNote)
    while main(["job", "watch", "--once", "program.py"]) != 0:
        assert time.monotonic() < deadline
    said = capsys.readouterr()
    assert "watched  RUNNING" in said.out
    assert f"{note.url}/#token={note.token}" in said.err
    assert main(["job", "watch", "--json", "program.py"]) == 0
    # The program prints as well.
    [document] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert msgspec.json.decode(document)["job"]["name"] == "watched"
    assert main(["job", "list"]) == 0
    assert f"REST API at {note.url}" in capsys.readouterr().out
    assert main(["job", "stop", "program.py"]) == 0
    assert "Savepoint completed. Path: savepoints/savepoint-" in capsys.readouterr().out.replace(
        f"{tmp_path}/", ""
    )
    running.join(PATIENCE_SECONDS)
    assert codes == [0]
    assert not notes[0].exists()
    assert main(["job", "watch", "program.py"]) == 4
    assert "no process runs this job: start it first" in capsys.readouterr().err


GROWS = """
import time
from onceproof.engine import *

class Seen(KeyedProcessFunction):
    def open(self, context):
        self.seen = context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value, ctx):
        time.sleep(0.001)
        self.seen.update(value)
        yield value

options = {
    "execution.checkpointing.interval": "20 ms",
    "execution.checkpointing.dir": "checkpoints",
    "execution.checkpointing.savepoint-dir": "savepoints",
}
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
numbers = env.from_collection(range(200000), Types.LONG()).uid("numbers")
numbers.key_by(lambda number: number, Types.LONG()).process(Seen()).name("visitors").uid("visitors").add_sink(
    PRINTED
).uid("out")
env.execute("grows")
""".replace("PRINTED", "type('Nothing', (SinkFunction,), {'invoke': lambda self, value, context: None})()")


def test_watch_names_the_state_of_a_job_that_only_grows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("program.py").write_text(GROWS)
    command = ["job", "run", "--rest", "0", "program.py"]
    running = threading.Thread(target=lambda: main(command), daemon=True)
    running.start()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not list(Path("checkpoints").glob("*/requests/rest.json")):
        assert running.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    found = []
    while not found:
        assert time.monotonic() < deadline
        time.sleep(0.1)
        capsys.readouterr()
        if main(["job", "watch", "--json", "program.py"]) == 0:
            [document] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
            found = msgspec.json.decode(document)["checkpoints"]["growing_states"]
    assert (found[0]["operator"], found[0]["state"], found[0]["unit"]) == ("visitors", "seen", "entries")
    assert found[0]["first"] < found[0]["last"]
    assert main(["job", "watch", "--once", "program.py"]) == 0
    said = capsys.readouterr().out
    assert "states that only grow" in said
    assert "see docs/troubleshooting.md#states-that-only-grow" in said
    assert "visitors" in said
    assert main(["job", "cancel", "program.py", "-s"]) == 0
    running.join(PATIENCE_SECONDS)
