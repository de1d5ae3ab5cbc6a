"""Programs of several processes, which are restarted by themselves, and faults of the user's own."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from textwrap import dedent

import pytest
from msgspec.structs import replace

from onceproof.harness.explanation.sentences import sentence_of
from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import ATTEMPT_STARTED, FAULT_FIRED
from onceproof.harness.model.program_family import ProgramFamily
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.program import java_classes, own_faults
from tests.harness.systems.program.programs import FILES, REMEMBERS, events_of, program, tried

pytestmark = pytest.mark.local_kill

READS = """
    import os, sys, time
    spool = open("spool", "a")
    given = open(sys.argv[1] + "/numbers.jsonl")
    given.seek(os.path.getsize("spool"))
    while True:
        spool.write(given.readline())
        spool.flush()
        time.sleep(0.005)
"""
"""Copies its input into a file, and skips what stands there."""


def two_processes(folder: Path, more: str = "") -> Path:
    """Write a program of two processes, of which one hands on to the other; return its file."""
    reads = 'open("spool", "a").close(); given, written = open("spool")'
    path = program(folder, REMEMBERS.replace('given, written = open(sys.argv[1] + "/numbers.jsonl")', reads))
    (folder / "reader.py").write_text(dedent(READS), encoding="utf-8")
    text = path.read_text(encoding="utf-8").replace("[program]", '[[process]]\nname = "writer"')
    reader = '[[process]]\nname = "reader"\ncommand = ["{python}", "{here}/reader.py", "{input}"]\n'
    path.write_text(f"{text}\n{reader}{more}\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("part", ["reader", "writer"])
def test_a_process_of_several_is_restarted_by_itself(tmp_path: Path, part: str) -> None:
    kills = [Fault("kill_task", "committed", part, occurrence=n) for n in (1, 2)]
    history, verdict = tried(two_processes(tmp_path), faults=kills)
    assert verdict.passed, verdict.violations
    assert [payload["task"] for _, payload in events_of(history, FAULT_FIRED)] == [part, part]
    assert [subject for subject, _ in events_of(history, ATTEMPT_STARTED)] == ["1", "2", "3"]


def test_a_part_that_stays_dead_is_named(tmp_path: Path) -> None:
    path = two_processes(tmp_path, 'restart = "never"')
    path.write_text(f"{path.read_text(encoding='utf-8')}[done]\nquiet_seconds = 5\n", encoding="utf-8")
    _, verdict = tried(path, faults=(Fault("kill_task", "committed", "reader"),))
    assert [(each.property, each.anomaly) for each in verdict.violations] == [
        ("no_error", "part stayed dead"),
        ("exactly_once", "lost"),
    ]
    assert sentence_of(verdict.violations[0]).startswith(
        "The part reader of the program was killed and stayed"
    )


def test_a_fault_of_the_users_own_strikes_and_is_undone(tmp_path: Path) -> None:
    # Lines wait while the file is there, which the fault makes and its undoing removes.
    waits = REMEMBERS.replace("while True:", "while os.path.exists('held') or not time.sleep(0.005):")
    waits = waits.replace(
        "line = given.readline()", "line = '' if os.path.exists('held') else given.readline()"
    )
    requests: list[tuple[str, str, bytes]] = []

    class Takes(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            requests.append((self.path, self.headers["X-Start"], body))
            self.send_response(500 if len(requests) == 1 else 204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Takes)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/pause"
    text = f"""
        [[fault]]
        name = "hold"
        command = ["touch", "held"]
        undo = ["rm", "held"]
        lasts_ms = 500
        [[fault]]
        name = "pause"
        request = {{ url = "{url}", method = "POST", body = "now", headers = {{ X-Start = "{{start}}" }} }}
    """
    path = program(tmp_path, waits, FILES + dedent(text))
    faults = (
        Fault("own_fault", "committed", occurrence=2, delay=200, name="hold"),
        Fault("own_fault", "committed", occurrence=3, name="pause"),
    )
    history, verdict = tried(path, faults=faults)
    server.shutdown()
    server.server_close()
    assert verdict.passed, verdict.violations
    assert [payload["task"] for _, payload in events_of(history, FAULT_FIRED)] == ["hold", "pause"]
    assert history.statistics.milliseconds > 200
    # It was refused once, and tried again.
    assert requests == [("/pause", "1", b"now")] * 2


def test_a_process_has_a_port_that_is_the_same_for_each_start(tmp_path: Path) -> None:
    text = """
        [[process]]
        name = "web-server"
        command = ["{python}", "-m", "http.server", "-b", "127.0.0.1", "{port.web-server}"]
        [[fault]]
        name = "visit"
        request = { url = "http://127.0.0.1:{port.web-server}/" }
    """
    path = program(tmp_path, REMEMBERS, FILES + dedent(text))
    visit = Fault("own_fault", "committed", name="visit")
    kill = Fault("kill_task", "committed", "web-server", occurrence=2)
    history, verdict = tried(path, faults=(visit, kill, replace(visit, occurrence=3)))
    assert verdict.passed, verdict.violations
    struck = sorted(payload["task"] for _, payload in events_of(history, FAULT_FIRED))
    assert struck == ["visit", "visit", "web-server"]


def test_a_fault_of_the_users_own_that_never_works_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_faults, "_LEAST_SECONDS_TO_WORK", 0.0)
    text = '[[fault]]\nname = "cut"\ncommand = ["{python}", "-c", "raise SystemExit(\'no such table\')"]\n'
    path = program(tmp_path, REMEMBERS, FILES + text)
    with pytest.raises(FamilyError, match=r"job\.toml: fault 'cut': exit code 1: no such table"):
        tried(path, faults=(Fault("own_fault", "committed", name="cut"),))


JAVA = """
process = [
  { name = "first", command = ["{java}", "-cp", "{here}", "Worker"] },
  { name = "second", command = ["{java}", "-cp", "{here}", "Worker"] },
  { name = "client", command = ["{python}", "client.py"] },
]
input = { kind = "files" }
output = { kind = "files" }
"""


def test_processes_with_one_command_share_an_archive_of_java_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java_classes, "user_cache", lambda: tmp_path)
    (tmp_path / "job.toml").write_text(JAVA, encoding="utf-8")
    family = load_family(str(tmp_path / "job.toml"))
    assert isinstance(family, ProgramFamily)

    def archives(*, makes: bool) -> list[list[str]]:
        commands = [
            java_classes.with_archive(family, process, [*process.command], makes=makes)
            for process in family.file.processes
        ]
        return [[word for word in words if "ArchiveFile" in word or "AtExit" in word] for words in commands]

    assert archives(makes=False) == [[], [], []]
    (made,), *others = archives(makes=True)
    assert others == [[], []]
    Path(made.removeprefix("-XX:ArchiveClassesAtExit=")).touch()
    java_classes.keep_new(family)
    (kept,) = (tmp_path / "java-classes").glob("*.jsa")
    used = f"-XX:SharedArchiveFile={kept}"
    assert archives(makes=False) == [[used], [used], []]
