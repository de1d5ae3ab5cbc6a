"""One scenario on Flink: a job is submitted, watched, struck by faults, submitted again, until it has ended.

Rules:

- One loop in one thread looks at the job, strikes and submits. A fault waits for a number of passes of its
  point over the whole run, then for its milliseconds, and strikes once.
- What Flink recovers by itself, it recovers: the death of TaskManagers. Where the JobManager has died, or the
  job goes on at another parallelism, the job is submitted again from its latest complete checkpoint.
- A job whose sources never end is stopped and drained when all is read.
- A request that Flink refuses, because the job is just restarting, is made again.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import ANY_TASK, Fault, Operation, Scenario
from onceproof.harness.systems.fault_clock import Waiting
from onceproof.harness.systems.flink.cluster import FlinkAway, FlinkCluster, FlinkRefuses
from onceproof.harness.systems.flink.files import CheckpointFiles, FlinkPartFiles, SourceLog
from onceproof.harness.systems.flink.history import FlinkHistory, Pass
from onceproof.harness.systems.flink.order import FlinkOrder
from onceproof.harness.systems.flink.pool import FlinkPool
from onceproof.harness.systems.flink.topic_log import TopicLog
from onceproof.harness.systems.kit.patience import Patience
from onceproof.harness.systems.kit.system import lengths_of
from onceproof.harness.systems.process.job_specification import HIDDEN

LONGEST_SECONDS: Final = 90.0
_UNPICKLABLE: Final = re.compile(r"Can't pickle <class '__main__\.(\w+)'>")
MOST_OWN_FAILURES: Final = 3
"""After as many attempts without a fault in between the run is over."""
_SECONDS_BETWEEN_LOOKS: Final = 0.002
_SECONDS_BETWEEN_REQUESTS: Final = 0.05
_LONGEST_MARKERS_S: Final = 5.0
_LONGEST_ANSWER_S: Final = 10.0
"""How long a finished job may owe the answer to a request for a savepoint."""
_CHECKPOINTS_FAILED: Final = "Exceeded checkpoint tolerable failure threshold"
_STOP_HALF_DONE: Final = "StopWithSavepointStoppingException"
_ENDED: Final = frozenset({"FINISHED", "FAILED", "CANCELED"})


@dataclass(slots=True)
class _Due:
    """A fault or a request whose point has been passed, and when it strikes."""

    wanted: Fault | Operation
    at: float
    passed: Pass


@dataclass(slots=True)
class _Savepoint:
    """A savepoint that was asked for."""

    request: str
    """Its id at the REST interface."""
    operation: Operation | None
    """None: it drains the job."""


@dataclass(slots=True)
class FlinkRun:
    """The run of one scenario in a folder of its own."""

    scenario: Scenario
    faults: tuple[Fault, ...]
    """Those that Flink can take."""
    order: FlinkOrder
    pool: FlinkPool
    seconds: float = LONGEST_SECONDS
    _cluster: FlinkCluster = field(init=False)
    _history: FlinkHistory = field(init=False)
    _log: SourceLog = field(init=False)
    _files: FlinkPartFiles = field(init=False)
    _topic: TopicLog | None = field(init=False)
    """The topic of its sink; None: it has none."""
    _checkpoints: CheckpointFiles = field(init=False)
    _waiting: list[Waiting[Fault] | Waiting[Operation]] = field(init=False)
    _due: list[_Due] = field(default_factory=list)
    _job: str = ""
    _readers: int = 0
    _reads_topic: bool = False
    _parallelism: int = field(init=False)
    _backend: str = field(init=False)
    _savepoint: _Savepoint | None = None
    _asked_at: float = 0.0
    _state: str = ""
    _ended_at: float | None = None
    """When the job was first seen as finished while a request for a savepoint had no answer."""
    _is_over: bool = False

    def __post_init__(self) -> None:
        scenario, order = self.scenario, self.order
        lengths = lengths_of(scenario)
        self._history = FlinkHistory(
            scenario.checkpoint_mode.barriers == "unaligned",
            self._restored_by_flink,
            self._cause,
            self._names_killed,
        )
        self._log = SourceLog(order.log)
        self._files = FlinkPartFiles(order.output, order.row_of())
        self._topic = order.sink_topic()
        listed_in = (lambda _: ()) if self._topic is None else self._topic.listed_in
        self._checkpoints = CheckpointFiles(order.checkpoints, order.kept, order.stops, lengths, listed_in)
        self._waiting = [*map(Waiting, self.faults), *map(Waiting, scenario.asked)]
        self._parallelism = scenario.parallelism
        self._backend = scenario.state_backend or "hashmap"

    def run(self) -> History:
        """Run the job to its end, and return the history."""
        begun, waited_before = time.monotonic(), self.pool.waited_seconds
        self._cluster = self.pool.cluster()
        if any(FAULTS[fault.kind].strikes == "process" for fault in self.faults):
            self.pool.prepare_spare()
        events = self._history.history.events
        patience = Patience(self.seconds, lambda: len(events))
        try:
            self._submit()
            while not self._is_over:
                self._look()
                self._strike()
                self._follow()
                if patience.is_over():
                    self._history.out_of_time(self._what_it_does())
                    self._cancel()
                    break
                time.sleep(_SECONDS_BETWEEN_LOOKS)
        finally:
            # Without a job the error says why there is none.
            if self._job and self._state not in _ENDED:
                self._cancel()
        if not self.faults and not self.scenario.asked:
            for path in self.order.output.iterdir():
                if path.name.startswith(HIDDEN):
                    self._history.leak("unfinished file", path.name)
        statistics = self._history.history.statistics
        statistics.milliseconds = (time.monotonic() - begun) * 1000
        statistics.waited_milliseconds = (self.pool.waited_seconds - waited_before) * 1000
        return self._history.history

    # The job.

    def _submit(self) -> None:
        """Submit the job, from the latest complete checkpoint.

        Where that is gone, the job had finished when its JobManager died: Flink deletes checkpoints at no
        other time.
        """
        latest = self._history.latest
        place = None if latest is None else self._checkpoints.place_of(latest)
        if latest is not None and place is None:
            self._finished()
            return
        self._history.job_started(self._parallelism, latest)
        order = self.order.made(
            self._cluster.port, self._history.starts, self._parallelism, self._backend, place
        )
        answer = self.pool.submit(order)
        self._job, self._readers, self._reads_topic = answer["job"], answer["readers"], answer["reads_topic"]
        self._savepoint = None
        self._state = ""
        self._asked_at = 0.0
        self._ended_at = None

    def _submit_again(self) -> None:
        """End what runs of the job, and submit it again from its latest checkpoint.

        A job that has finished meanwhile is over, and Flink has deleted its checkpoints.
        """
        is_over = self._cancel() == "FINISHED"
        self._look()
        if not is_over:
            self._submit()

    def _cancel(self) -> str:
        """Cancel the job, and return its state when it has ended; "" where its JobManager is dead."""
        deadline = time.monotonic() + self.seconds
        state = ""
        try:
            self._request("?mode=cancel", "PATCH")
            while state not in _ENDED and time.monotonic() < deadline:
                time.sleep(_SECONDS_BETWEEN_REQUESTS if state else 0)
                state = self._request("")["state"]
        except FlinkRefuses:
            # It cannot be cancelled any more.
            return self._state_of_job()
        except FlinkAway:
            return ""
        return state

    def _state_of_job(self) -> str:
        try:
            return str(self._request("")["state"])
        except (FlinkAway, FlinkRefuses):
            return ""

    def _request(self, path: str, method: str = "GET", body: Any = None) -> Any:
        return self._cluster.request(f"/jobs/{self._job}{path}", method, body)

    def _restored_by_flink(self) -> int | None:
        try:
            restored = self._request("/checkpoints")["latest"]["restored"]
        except (FlinkAway, FlinkRefuses):
            return None
        return None if restored is None else int(restored["id"])

    # What is seen.

    def _look(self) -> None:
        events = self._log.new_events()
        new, gone = self._files.changes()
        if self._topic is not None:
            new |= self._topic.changes()[0]
        passes = self._history.look(events, new, gone, self._checkpoints.new_checkpoints())
        if self._history.attempts_without_a_cause >= MOST_OWN_FAILURES and not self._is_over:
            cause = self._cause()
            if unpicklable := _UNPICKLABLE.search(cause):
                # Processes of Python would: they pickle classes with their code.
                raise FamilyError(
                    f"family {self.order.family.name} cannot run on Flink: in thread mode PyFlink passes no"
                    f" objects of {unpicklable[1]} between operators: pass tuples or Rows"
                )
            self._history.job_failed(cause)
            self._is_over = True
        for each in passes:
            self._pass(each)

    def _look_at_the_end(self) -> None:
        """Look when the job has ended; markers of committed transactions come a little after their commit."""
        deadline = time.monotonic() + _LONGEST_MARKERS_S
        while self._topic is not None and not self._topic.is_at_rest and time.monotonic() < deadline:
            time.sleep(_SECONDS_BETWEEN_REQUESTS)
        self._look()

    def _cause(self) -> str:
        """Return the last exception of the job, in one line: what it says, and the innermost cause."""
        try:
            entries = self._request("/exceptions")["exceptionHistory"]["entries"]
            failed = self._request("/checkpoints")["latest"]["failed"]
        except (FlinkAway, FlinkRefuses):
            return "its JobManager does not answer"
        if not entries:
            return "Flink names no cause"
        trace = entries[0]["stacktrace"]
        if _CHECKPOINTS_FAILED in trace and failed is not None:
            trace = failed["failure_message"]
        first, *others = trace.splitlines()
        causes = [line for line in others if line.startswith("Caused by: ")]
        return " ".join(" ".join([first, *causes[-1:]]).split())[:600]

    def _names_killed(self) -> bool:
        """Return whether the last exception of the job names a TaskManager that a fault has killed."""
        try:
            entries = self._request("/exceptions")["exceptionHistory"]["entries"]
        except (FlinkAway, FlinkRefuses):
            return False
        places = ("stacktrace", "endpoint", "taskManagerId")
        return bool(entries) and self._cluster.names_killed(
            " ".join(str(entries[0].get(place)) for place in places)
        )

    def _pass(self, passed: Pass) -> None:
        """Count a pass of a point; what has waited for it becomes due."""
        for waiting in list(self._waiting):
            wanted = waiting.wanted
            if wanted.point == passed.point and waiting.is_hit(ANY_TASK, passed.checkpoint):
                self._waiting.remove(waiting)
                waits_ms = wanted.delay if isinstance(wanted, Fault) else 0
                self._due.append(_Due(wanted, time.monotonic() + waits_ms / 1000, passed))

    # Faults and requests.

    def _strike(self) -> None:
        """Carry out what is due."""
        now = time.monotonic()
        for due in [each for each in self._due if each.at <= now]:
            if self._is_over:
                return
            if isinstance(due.wanted, Fault):
                self._due.remove(due)
                self._strike_fault(due.wanted, due.passed)
            elif self._savepoint is None:
                self._due.remove(due)
                self._ask(due.wanted)

    def _strike_fault(self, fault: Fault, passed: Pass) -> None:
        if self._state in _ENDED:
            return
        target = FAULTS[fault.kind].strikes
        if target == "tasks":
            if not self._kill_tasks(fault, passed):
                return
        elif target == "master":
            self._cluster.kill_job_manager()
        else:
            self._cluster.kill()
        self._look_after_a_kill(fault, passed)
        self._parallelism = fault.rescale_to or self._parallelism
        if target == "tasks":
            self._cluster.fill()
            if fault.rescale_to:
                self._submit_again()
            return
        time.sleep(self.scenario.restart_delay_ms / 1000)
        if target == "master":
            self._cluster = self.pool.with_new_job_manager()
        else:
            self._cluster = self.pool.replacement()
        self._look()
        self._submit()

    def _kill_tasks(self, fault: Fault, passed: Pass) -> bool:
        """Kill the TaskManager that passed the point, or all; return whether one has died."""
        if FAULTS[fault.kind].victims == "all":
            return self._cluster.kill_task_managers() > 0
        if self._cluster.kill_task_managers(lambda pid: pid == passed.pid):
            return True
        # The point is one of the JobManager or of a file, or its TaskManager has died since.
        return self._cluster.kill_one_task_manager()

    def _look_after_a_kill(self, fault: Fault, passed: Pass) -> None:
        """Add what was done before the kill, then the kill."""
        if FAULTS[fault.kind].strikes != "tasks":
            # No process of the JobManager writes any more.
            self._look()
        self._history.fault_fired(fault, passed.task)

    def _ask(self, operation: Operation) -> None:
        """Ask for a savepoint, or for a stop with one."""
        # Another backend reads only this form.
        form = {} if operation.state_backend is None else {"formatType": "CANONICAL"}
        try:
            if operation.kind == "savepoint":
                body = {"target-directory": f"file://{self.order.savepoints}", "cancel-job": False}
                answer = self._request("/savepoints", "POST", {**body, **form})
            else:
                body = {"targetDirectory": f"file://{self.order.stops}", "drain": False}
                answer = self._request("/stop", "POST", {**body, **form})
                self._history.stop_asked()
        except FlinkRefuses:
            # The job has ended, or restarts: the request comes too early or too late.
            if self._state not in _ENDED:
                self._due.append(_Due(operation, time.monotonic() + _SECONDS_BETWEEN_REQUESTS, _NOWHERE))
            return
        except FlinkAway:
            return
        self._savepoint = _Savepoint(answer["request-id"], operation)

    def _drain(self) -> None:
        """Stop a job whose sources never end, once all is read."""
        body = {"targetDirectory": f"file://{self.order.stops}", "drain": True}
        try:
            answer = self._request("/stop", "POST", body)
        except (FlinkRefuses, FlinkAway):
            return
        self._history.stop_asked()
        self._savepoint = _Savepoint(answer["request-id"], None)

    # The end.

    def _follow(self) -> None:
        """Ask Flink from time to time for the state of the job, and of a savepoint that was asked for."""
        now = time.monotonic()
        if self._is_over or now - self._asked_at < _SECONDS_BETWEEN_REQUESTS:
            return
        self._asked_at = now
        try:
            if self._savepoint is not None:
                self._follow_savepoint(self._savepoint)
            elif not self._due and self._has_to_be_drained():
                self._drain()
            self._state = self._request("")["state"]
        except (FlinkAway, FlinkRefuses):
            return
        asked = None if self._savepoint is None else self._savepoint.operation
        if asked is not None:
            if self._owes_an_answer(now):
                if asked.kind == "stop" and self._state == "FINISHED":
                    # A stop ends the job, and its answer says what comes next.
                    self._state = ""
                return
            self._savepoint = None
        match self._state:
            case "FINISHED":
                self._finished()
            case "FAILED":
                self._failed()

    def _owes_an_answer(self, now: float) -> bool:
        """Return whether the answer to a savepoint may still come.

        Where a job has ended by itself meanwhile, there may never be one.
        """
        if self._state != "FINISHED":
            self._ended_at = None
            return True
        if self._ended_at is None:
            self._ended_at = now
        return now - self._ended_at < _LONGEST_ANSWER_S

    def _finished(self) -> None:
        self._look_at_the_end()
        self.order.check_sink_topic(self._history.history)
        self._history.job_finished()
        self._is_over = True

    def _what_it_does(self) -> str:
        """Return the state of the job, and what was asked of it and has no answer."""
        state = self._state_of_job() or "without an answer"
        asked = self._savepoint
        if asked is None:
            return f"the job is {state}"
        kind = "drain" if asked.operation is None else asked.operation.kind
        return f"the job is {state}, and a {kind} has no answer"

    def _has_to_be_drained(self) -> bool:
        """Return whether all is read by sources that do not end: a topic is, when a checkpoint says so."""
        if self._reads_topic:
            return self._history.latest_cut == {
                split: len(records) for split, records in self.scenario.records.items()
            }
        return self.scenario.is_endless and self._history.has_read_all(self._readers)

    def _failed(self) -> None:
        """Submit a job again that failed between savepoint and end, as Flink says; else the run is over."""
        self._look()
        cause = self._cause()
        if _STOP_HALF_DONE in cause:
            self._history.stop_failed(cause)
            self._submit()
        else:
            self._history.job_failed(cause)
            self._is_over = True

    def _follow_savepoint(self, savepoint: _Savepoint) -> None:
        answer = self._request(f"/savepoints/{savepoint.request}")
        if answer["status"]["id"] != "COMPLETED":
            return
        self._savepoint = None
        location = answer["operation"].get("location")
        operation = savepoint.operation
        if location is None:
            # It was asked for while a task failed; a job that cannot take it goes on without it.
            cause = str(answer["operation"].get("failure-cause", {}).get("class", "unknown"))
            if operation is None or operation.kind == "stop":
                self._history.stop_failed(cause)
            return
        if operation is None:
            return
        if operation.kind == "savepoint":
            found = self._checkpoints.savepoint(Path(location.removeprefix("file:")))
            if found is not None:
                self._history.savepoint_completed(found.checkpoint)
            return
        while self._request("")["state"] not in _ENDED:
            time.sleep(_SECONDS_BETWEEN_REQUESTS)
        # It has made visible what the savepoint lists.
        self._look_at_the_end()
        self._history.job_stopped()
        self._parallelism = operation.parallelism or self._parallelism
        self._backend = operation.state_backend or self._backend
        self._submit()


_NOWHERE: Final = Pass("element", ANY_TASK, 0, 0)
