"""Asks Flink's planner, which runs in a child process, for plans.

Rules:

- The child is a Python with apache-flink; it starts when the first statement comes, takes seconds to start,
  and a fraction of a second for each statement.
- A request and its answer are one line of JSON each (``client/planner_client.py`` lists their fields).
- A statement that the planner refuses is a PlanningFailed with the planner's own words. A planner that does
  not start, ends, gives no answer in time or says nothing sensible is a PlannerBroken, of one line.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, Self

import msgspec

CLIENT: Final = Path(__file__).parent / "client"
PROGRAM: Final = CLIENT / "planner_client.py"
JAVA_SOURCES: Final = (CLIENT / "DeclaredTableFactory.java",)
FACTORY: Final = "onceproof.DeclaredTableFactory"
"""The class that the jar of the planner names as a factory of tables."""
_ENDS_S: Final = 10.0
_REMEDIES: Final[Mapping[str, str]] = {
    "doesn't support consuming": "the query corrects rows that it has written, and this sink only appends:"
    " declare a PRIMARY KEY and a connector that writes by key (upsert-kafka, jdbc), or a format that holds"
    " changes (debezium-json)",
    "please declare primary key": "without one it cannot find the row that a change replaces",
    "No match found for function signature": "a program registers functions of its own, by"
    " create_temporary_function",
    "specify an ON CONFLICT clause": "only since Flink 2.3: to plan it as earlier releases do, SET"
    " 'table.exec.sink.require-on-conflict' = 'false'",
    "Can not serialize ExecNode": "Flink compiles no plan of this operation, which the engine would run",
}
"""What to do, by the words of the planner that do not say it."""
_WRAPPERS: Final = ("Could not execute", "Unable to create a source", "Unable to create a sink")
"""How a message begins that says what failed, and leaves to its cause why."""
ANSWERS_S: Final = 600.0
"""How long an answer may take: it only ends a planner that hangs, on a machine however slow."""


class PlannerHome(msgspec.Struct, frozen=True):
    """Where the planner is: a Python with apache-flink, a Java, and the jar with the connector ``vec``."""

    python: str
    java_home: str
    jar: str


class PlannerBroken(RuntimeError):
    """The planner does not work; the message is one line."""


class PlanningFailed(ValueError):
    """The planner refuses a statement. The message is one line: the phase and the planner's own words."""

    def __init__(self, error: Mapping[str, Any], schema: list[list[str]] | None = None) -> None:
        message = str(error["message"])
        cause = error.get("cause", {}).get("message", "")
        if message.startswith(_WRAPPERS) and cause:
            message = f"{message.rstrip('.')}: {cause}"
        remedy = next((f"; {remedy}" for words, remedy in _REMEDIES.items() if words in message), "")
        super().__init__(f"Flink's planner refuses it ({error['phase']}): {message}{remedy}")
        self.error = dict(error)
        """phase, class, message, and perhaps cause and wrapper."""
        self.schema = schema
        """Of a query that was valid, but cannot be planned."""


class PlanRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What to plan: one of ``statement``, ``statements`` (one plan for all INSERTs), ``program``, ``target``.

    ``calls`` are what a program says of tables (``api/recorded.py``), ``target`` what it asks for.
    """

    ddl: Sequence[str] = ()
    options: Mapping[str, str] = {}
    statement: str | None = None
    statements: Sequence[str] | None = None
    program: str | None = None
    calls: Sequence[Mapping[str, Any]] = ()
    target: Mapping[str, Any] | None = None


def renumbered(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan whose nodes count from 1.

    The planner counts on from statement to statement, and state is found by the ids: the same statement
    must have the same ones.
    """
    number = {node["id"]: place for place, node in enumerate(plan["nodes"], 1)}
    nodes = [{**node, "id": number[node["id"]]} for node in plan["nodes"]]
    edges = [
        {**edge, "source": number[edge["source"]], "target": number[edge["target"]]} for edge in plan["edges"]
    ]
    return {**plan, "nodes": nodes, "edges": edges}


class Planner:
    """One planner process; it is a context manager, and ``close`` ends it.

    Args:
        home: where the planner is.
        answers_s: after how many seconds without an answer the process is killed.
    """

    def __init__(self, home: PlannerHome, answers_s: float = ANSWERS_S) -> None:
        self._home = home
        self._answers_s = answers_s
        self._is_late = False
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def plan(self, request: PlanRequest) -> dict[str, Any]:
        """Return the answer to a request: its ``plan`` (and ``schema``), ``text``, ``rows`` or ``value``.

        Raises:
            PlanningFailed: the planner refuses the statement.
            PlannerBroken: there is no answer.
        """
        process = self._started()
        assert process.stdin is not None
        line = msgspec.json.encode(request).decode()
        with self._deadline(process):
            try:
                process.stdin.write(f"{line}\n")
                process.stdin.flush()
            except OSError:
                raise self._broken("ended") from None
            answer = self._answer(process)
        if (error := answer.get("error")) is not None:
            raise PlanningFailed(error, answer.get("schema"))
        return {**answer, "plan": renumbered(answer["plan"])} if "plan" in answer else answer

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(OSError):
                # What a process that has ended has not read is still in the buffer.
                process.stdin.close()
            try:
                process.wait(_ENDS_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        if self._log is not None:
            self._log.close()
            self._log = None

    def _started(self) -> subprocess.Popen[str]:
        if self._process is not None:
            return self._process
        home = self._home
        environment = {**os.environ, "JAVA_HOME": home.java_home}
        for name in ("PYTHONPATH", "PYTHONHOME", "FLINK_HOME"):
            environment.pop(name, None)
        # Closed by ``close``: the process writes into it until then.
        self._log = tempfile.TemporaryFile(prefix="onceproof-planner-")  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                [home.python, str(PROGRAM), home.jar],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=environment,
                encoding="utf-8",
            )
        except OSError as error:
            raise PlannerBroken(f"Flink's planner does not start: {error}") from None
        with self._deadline(self._process):
            if not self._answer(self._process).get("ready"):
                raise self._broken("did not start")
        return self._process

    @contextmanager
    def _deadline(self, process: subprocess.Popen[str]) -> Iterator[None]:
        """Kill the process when the block takes too long; then reading from it ends."""
        self._is_late = False

        def expire() -> None:
            self._is_late = True
            process.kill()

        timer = threading.Timer(self._answers_s, expire)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _answer(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise self._broken("ended")
        try:
            answer: dict[str, Any] = msgspec.json.decode(line)
        except msgspec.DecodeError:
            raise self._broken("answered with no JSON") from None
        return answer

    def _broken(self, what: str) -> PlannerBroken:
        if self._is_late:
            what = f"gave no answer within {self._answers_s:g} s"
        last = ""
        if self._log is not None:
            self._log.seek(0)
            lines = self._log.read().decode(errors="replace").strip().splitlines()
            last = f": {lines[-1].strip()}" if lines else ""
        self.close()
        return PlannerBroken(f"Flink's planner {what}{last}")
