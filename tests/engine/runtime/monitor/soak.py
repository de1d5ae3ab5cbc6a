"""A job under kills and a flood of requests beside the same job without: rows exact, and how fast each was.

    python -m tests.engine.runtime.monitor.soak [SECONDS [REQUESTS]]

The job has two workers and exactly-once files, and offers its REST API. For SECONDS (300) in all REQUESTS a
second (200) are sent to it from another process, beside clients that never end their request; for as long it
runs without them. Both take turns of half a minute. Every ten seconds its process is killed with SIGKILL and
started again. At the end of a turn it is stopped over the API, and what is in the files is compared with what
the source has given: each number once. It ends with 1 if the job with requests wrote less than 97 % of the
rows a second of the one without, and with an AssertionError if a row is lost or there twice.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from onceproof.engine.runtime.monitor.rest_note import RestNote, read_note

KILL_SECONDS = 10
TURN_SECONDS = 30
LEAST_RATIO = 0.97
CLIENTS = 8
PATHS = ("", "/checkpoints", "/attempts", "/transactions", "/exceptions", "/metrics", "/nothing")

PROGRAM = """
from onceproof.engine import *

options = {{
    "execution.checkpointing.interval": "500 ms",
    "execution.checkpointing.dir": "checkpoints",
    "execution.checkpointing.savepoint-dir": "savepoints",
    "execution.local.workers": 2,
    "parallelism.default": 2,
    "rest.port": {port},
}}
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
source = DataGeneratorSource(lambda index: index, None, RateLimiterStrategy.per_second({rate}))
numbers = env.from_source(source, None, "numbers").uid("numbers")
texts = numbers.key_by(lambda number: number % 100).map(str).uid("texts")
texts.sink_to(FileSink.for_row_format("rows", Encoder.simple_string_encoder()).build()).uid("files")
env.execute("soak")
"""
RATE = 10_000
"""Records a second: what two busy cores have time for beside the clients, which take more of it than the job.
At a rate that the machine cannot reach, what is measured is who gets the processor."""


class Flood:
    """Clients in threads that send requests until the process is ended, and how many were answered."""

    def __init__(self, port: int, requests: int) -> None:
        self._port = port
        self._pause = CLIENTS / requests
        self.answered = 0
        self.refused = 0

    def run(self) -> None:
        """Send requests until SIGTERM comes."""
        for number in range(CLIENTS):
            threading.Thread(target=self._ask, args=(number,), daemon=True).start()
        began = time.monotonic()
        signal.sigwait({signal.SIGTERM})
        rate = self.answered / (time.monotonic() - began)
        print(
            f"{self.answered:,} requests answered, {rate:.0f} a second, and {self.refused:,} not", flush=True
        )
        os._exit(0)

    def _ask(self, number: int) -> None:
        connection: http.client.HTTPConnection | None = None
        slow: list[socket.socket] = []
        job_id, turn, due = "", number, time.monotonic()
        while True:
            due = max(due + self._pause, time.monotonic() - 1)
            time.sleep(max(0.0, due - time.monotonic()))
            turn += 1
            path = f"/jobs/{job_id}{PATHS[turn % len(PATHS)]}" if job_id else "/jobs"
            try:
                connection = connection or http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
                connection.request("GET", path)
                found: Any = json.loads(connection.getresponse().read())
                job_id = job_id or found.get("jobs", [{"id": ""}])[0]["id"]
                self.answered += 1
                if turn % 50 == 0:
                    # A client that never ends its request.
                    slow = [*slow[-1:], socket.create_connection(("127.0.0.1", self._port), timeout=5)]
                    slow[-1].sendall(b"GET /jobs HTTP/1.1\r\nHos")
            except (OSError, http.client.HTTPException, ValueError):
                self.refused += 1
                connection = None


def wait_for_note(folder: Path, process: subprocess.Popen[bytes]) -> RestNote:
    """Wait until the process offers its API."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for root in folder.glob("checkpoints/*"):
            note = read_note(root)
            if note is not None and note.process == process.pid:
                return note
        time.sleep(0.05)
    raise AssertionError("the job offers no API")


class Turn(NamedTuple):
    """What came of one turn."""

    rows: int
    seconds: float
    """How long the job was up; the start of a process is none of its throughput."""
    kills: int


def soak(folder: Path, seconds: float, requests: int) -> Turn:
    """Run the job with its kills, and check its rows."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "program.py").write_text(PROGRAM.format(port=port, rate=RATE))
    flooder = None
    if requests:
        command = [
            sys.executable,
            "-m",
            "tests.engine.runtime.monitor.soak",
            "flood",
            str(port),
            str(requests),
        ]
        flooder = subprocess.Popen(command)
    began, kills, up_seconds = time.monotonic(), 0, 0.0
    while True:
        process = subprocess.Popen([sys.executable, "program.py"], cwd=folder, stderr=subprocess.DEVNULL)
        note = wait_for_note(folder, process)
        started = time.monotonic()
        if time.monotonic() - began >= seconds:
            break
        time.sleep(min(KILL_SECONDS, max(0.0, seconds - (time.monotonic() - began))))
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
        up_seconds += time.monotonic() - started
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    found: Any = {}
    while "jobs" not in found:
        # Just after its start the job has shown nothing yet.
        connection.request("GET", "/jobs", headers={"Connection": "close"})
        found = json.loads(connection.getresponse().read())
        connection.close()
    job_id = found["jobs"][0]["id"]
    connection.request("POST", f"/jobs/{job_id}/stop", "{}", {"Authorization": f"Bearer {note.token}"})
    assert connection.getresponse().status == 202
    assert process.wait(60) == 0
    up_seconds += time.monotonic() - started
    if flooder is not None:
        flooder.terminate()
        flooder.wait()
    rows = [int(line) for path in (folder / "rows").glob("part-*") for line in path.read_text().split()]
    assert len(set(rows)) == len(rows), "a row is there twice"
    missing = _missing(rows)
    assert not missing, f"rows are lost: {missing[:5]}"
    turn = Turn(len(rows), up_seconds, kills)
    print(f"{_text(turn)}, {requests} requests a second asked", flush=True)
    return turn


def _text(turn: Turn) -> str:
    rows, seconds, kills = turn
    return (
        f"{rows:,} rows, each once, over {kills} kills and {seconds:.0f} s up: {rows / seconds:,.0f} a second"
    )


def compare(seconds: int, requests: int) -> int:
    """Let the job with and without requests take turns; return the exit code."""
    turns = max(1, round(seconds / TURN_SECONDS))
    found: dict[bool, list[Turn]] = {True: [], False: []}
    for number in range(turns):
        for is_flooded in (True, False) if number % 2 else (False, True):
            folder = Path(tempfile.mkdtemp(prefix="onceproof-soak-"))
            turn = soak(folder, seconds / turns, requests if is_flooded else 0)
            found[is_flooded].append(turn)
            shutil.rmtree(folder)
    flooded, quiet = (Turn(*map(sum, zip(*found[which], strict=True))) for which in (True, False))
    ratio = flooded.rows / flooded.seconds / (quiet.rows / quiet.seconds)
    print(f"with requests: {_text(flooded)}")
    print(f"without:       {_text(quiet)}")
    print(f"ratio {ratio:.4f}, at least {LEAST_RATIO} is asked")
    return 0 if ratio >= LEAST_RATIO else 1


def _missing(rows: list[int]) -> list[int]:
    """Return the numbers that are missing below the last one of each of the two splits."""
    found = []
    for half in range(2):
        own = sorted(number for number in rows if number % 2 == half)
        found += sorted(set(range(half, own[-1] + 1, 2)).difference(own))
    return found


def main(arguments: list[str]) -> None:
    """Soak, or flood."""
    if arguments[:1] == ["flood"]:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        Flood(int(arguments[1]), int(arguments[2])).run()
    os.environ["PYTHONPATH"] = os.getcwd()
    seconds, requests = [*map(int, arguments), *(300, 200)[len(arguments) :]]
    try:
        sys.exit(compare(seconds, requests))
    finally:
        # A soak that has failed leaves no job that goes on for ever.
        for child in psutil.Process().children(recursive=True):
            child.kill()


if __name__ == "__main__":
    main(sys.argv[1:])
