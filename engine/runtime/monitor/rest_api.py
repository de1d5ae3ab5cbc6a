"""The REST API of a running job: which path answers what, and the changes that a user asks for.

The rules this module lives by:

- Paths, methods and shapes are Flink's; those of ours are named in docs/rest.md. ``/v1`` may precede a path.
- An answer is made from the latest view alone, so a question costs the job nothing.
- A change is passed to the job, and answered at once with a trigger id; what came of it is asked for later.
  The same trigger id twice is the same change, so a client may repeat its request.
- What cannot be answered is refused with a status of 4xx that names what is wrong, before the job hears of
  it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from secrets import token_hex
from typing import Any, Final, TypeAlias

import msgspec

from onceproof.engine.runtime.job_requests import JobRequest, RequestKind
from onceproof.engine.runtime.monitor import checkpoint_shapes
from onceproof.engine.runtime.monitor import rest_shapes as shapes
from onceproof.engine.runtime.monitor.bounded_server import Answer, Gate, Refused, Request, json_answer
from onceproof.engine.runtime.monitor.job_history import JobHistory
from onceproof.engine.runtime.monitor.job_view import CheckpointView, JobView, VertexView
from onceproof.engine.runtime.monitor.metric_names import NamedMetric, job_metrics, vertex_metrics
from onceproof.engine.runtime.monitor.monitor_messages import Answered
from onceproof.engine.runtime.monitor.task_readings import Rates

ID_DIGITS: Final = 32
MOST_OPERATIONS: Final = 100
"""Of how many changes the outcome is remembered."""
MOST_OPEN: Final = 16
"""How many changes may wait for their outcome."""
MOST_EXCEPTIONS: Final = 20
_ID: Final = re.compile(r"[0-9a-f]{32}")
_LONGEST_SHOWN: Final = 64


class SavepointBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """The body of a savepoint's trigger (Flink: SavepointTriggerRequestBody)."""

    target_directory: str | None = None
    cancel_job: bool = False
    trigger_id: str | None = msgspec.field(default=None, name="triggerId")
    format_type: str | None = msgspec.field(default=None, name="formatType")


class StopBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The body of a stop (Flink: StopWithSavepointRequestBody)."""

    target_directory: str | None = None
    drain: bool = False
    trigger_id: str | None = None
    format_type: str | None = None


class _Operation:
    """A change that a user has asked for, and what came of it."""

    __slots__ = ("answer", "is_read", "number")

    def __init__(self, number: int, *, is_read: bool) -> None:
        self.number = number
        self.answer: Answered | None = None
        self.is_read = is_read


class JobBoard:
    """What the monitor process knows of the job: the latest view, and the open changes.

    ``ask`` passes a change to the job.
    """

    def __init__(self, ask: Callable[[int, JobRequest], None]) -> None:
        self._ask = ask
        self._seen: tuple[JobView, Rates] | None = None
        self._rates = Rates()
        self.history = JobHistory()
        self._changing = threading.Lock()
        self._operations: dict[str, _Operation] = {}
        self._numbers = 0

    def show(self, view: JobView) -> None:
        """Take the next view; called in one thread."""
        self._rates.take(view)
        rates = Rates()
        rates.by_subtask = self._rates.by_subtask
        self.history.take(view, rates)
        # Replaced as a whole: other threads read either this pair or the one before.
        self._seen = (view, rates)

    def latest(self) -> tuple[JobView, Rates]:
        """Return the latest view with its rates. Raises Refused before the first one."""
        if self._seen is None:
            raise Refused(503, "the job is starting and has shown nothing yet: ask again")
        return self._seen

    def request(
        self, request: JobRequest, trigger_id: str | None = None, *, is_asked_for: bool = True
    ) -> str:
        """Pass a change to the job, once for each trigger id; return the id. Raises Refused.

        ``is_asked_for``: the client will ask what came of it.
        """
        if trigger_id is not None and not _ID.fullmatch(trigger_id):
            raise Refused(
                400, f"triggerId {_short(trigger_id)} is not an id of {ID_DIGITS} hexadecimal digits"
            )
        with self._changing:
            chosen = trigger_id or token_hex(ID_DIGITS // 2)
            if chosen in self._operations:
                return chosen
            open_now = sum([each.answer is None for each in self._operations.values()])
            if open_now >= MOST_OPEN:
                raise Refused(429, f"{open_now} changes wait for their outcome already: ask for that first")
            if len(self._operations) >= MOST_OPERATIONS:
                del self._operations[next(key for key, each in self._operations.items() if each.answer)]
            self._numbers += 1
            self._operations[chosen] = _Operation(self._numbers, is_read=not is_asked_for)
            number = self._numbers
        self._ask(number, request)
        return chosen

    def answered(self, answer: Answered) -> None:
        """Note what came of a change."""
        with self._changing:
            for operation in self._operations.values():
                if operation.number == answer.number:
                    operation.answer = answer

    def outcome(self, trigger_id: str) -> Answered | None:
        """Return what came of a change; None: it is open. Raises Refused for an unknown one."""
        with self._changing:
            operation = self._operations.get(trigger_id)
            if operation is None:
                raise Refused(404, f"there is no change with the trigger id {_short(trigger_id)}")
            operation.is_read = operation.answer is not None
            return operation.answer

    @property
    def has_unread_outcomes(self) -> bool:
        """Return whether a client has not asked yet what came of its change."""
        with self._changing:
            return any(each.answer is not None and not each.is_read for each in self._operations.values())


_Get: TypeAlias = Callable[["RestApi", Request, tuple[str, ...]], Answer]


class RestApi:
    """Answers the requests of HTTP clients."""

    def __init__(self, board: JobBoard, gate: Gate, page: bytes) -> None:
        self.board = board
        self._gate = gate
        self._page = page

    def respond(self, request: Request) -> Answer:
        """Return the answer to a request. Raises Refused."""
        path = request.path.removeprefix("/v1") or "/"
        is_page = path in ("/", "/index.html")
        self._gate.check(request, is_public=is_page)
        if is_page and request.method in ("GET", "HEAD"):
            return Answer(200, self._page, "text/html; charset=UTF-8")
        method = "GET" if request.method == "HEAD" else request.method
        allowed = set()
        for known, pattern, answer in _ROUTES:
            match = pattern.fullmatch(path)
            if match is None:
                continue
            if known == method:
                return answer(self, request, match.groups())
            allowed.add(known)
        if allowed or is_page:
            names = ", ".join(sorted(allowed or {"GET"}))
            raise Refused(405, f"{_short(request.method)} is not a method of this path", (("Allow", names),))
        raise Refused(404, f"there is no path {_short(path)}: docs/rest.md lists all")

    # What is asked for.

    def job(self, job_id: str) -> tuple[JobView, Rates]:
        """Return the view of the job with this id. Raises Refused."""
        if not _ID.fullmatch(job_id):
            raise Refused(
                400, f"{_short(job_id)} is not an id of a job: it has {ID_DIGITS} hexadecimal digits"
            )
        view, rates = self.board.latest()
        if view.job_id != job_id:
            raise Refused(404, f"this process runs job {view.job_id}, and none with the id {job_id}")
        return view, rates

    def vertex(self, job_id: str, vertex_id: str) -> tuple[JobView, Rates, VertexView]:
        """Return a vertex of the job. Raises Refused."""
        view, rates = self.job(job_id)
        for vertex in view.vertices:
            if vertex.vertex_id == vertex_id:
                return view, rates, vertex
        raise Refused(404, f"job {job_id} has no vertex {_short(vertex_id)}")

    def checkpoint(self, job_id: str, number: str) -> tuple[JobView, CheckpointView]:
        """Return a checkpoint of the history. Raises Refused."""
        view, _ = self.job(job_id)
        found = view.checkpoints
        kept = (*found.history, found.latest_completed, found.latest_savepoint, found.latest_failed)
        for each in kept:
            if each is not None and str(each.checkpoint_id) == number:
                return view, each
        raise Refused(404, f"checkpoint {_short(number)} is not in the history (web.checkpoints.history)")


def _metrics(found: list[NamedMetric], request: Request) -> Answer:
    """List the names of metrics, or with ``get`` the values of some, as texts (Flink: Metric)."""
    asked = request.query.get("get")
    if asked is None:
        return json_answer([{"id": each.local_name} for each in found])
    names = set(asked.split(","))
    return json_answer(
        [{"id": each.local_name, "value": _text(each.value)} for each in found if each.local_name in names]
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _cancel(api: RestApi, request: Request, found: tuple[str, ...]) -> Answer:
    view, _ = api.job(found[0])
    mode = request.query.get("mode", "cancel")
    if mode != "cancel":
        raise Refused(400, f"mode {_short(mode)}: only 'cancel' is possible; to stop, POST .../stop")
    _refuse_ended(view)
    api.board.request(JobRequest("cancel"), is_asked_for=False)
    return json_answer({}, 202)


def _savepoint(api: RestApi, request: Request, found: tuple[str, ...]) -> Answer:
    view, _ = api.job(found[0])
    body = _body(request, SavepointBody)
    kind: RequestKind = "cancel_with_savepoint" if body.cancel_job else "savepoint"
    _check_format(body.format_type)
    return _triggered(api, view, JobRequest(kind, body.target_directory or ""), body.trigger_id)


def _stop(api: RestApi, request: Request, found: tuple[str, ...]) -> Answer:
    view, _ = api.job(found[0])
    body = _body(request, StopBody)
    _check_format(body.format_type)
    return _triggered(api, view, JobRequest("stop", body.target_directory or "", body.drain), body.trigger_id)


def _check_format(given: str | None) -> None:
    if given not in (None, "CANONICAL"):
        raise Refused(400, f"formatType {_short(given)}: savepoints are CANONICAL here")


def _triggered(api: RestApi, view: JobView, request: JobRequest, trigger_id: str | None) -> Answer:
    _refuse_ended(view)
    return json_answer({"request-id": api.board.request(request, trigger_id)}, 202)


def _refuse_ended(view: JobView) -> None:
    if view.state in shapes.ENDED_STATES:
        raise Refused(409, f"the job is {view.state}: nothing can be changed any more")


def _body(request: Request, kind: type[Any]) -> Any:
    if not request.body:
        return kind()
    try:
        return msgspec.json.decode(request.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, f"the body is not as it must be: {error}") from error


def _outcome(api: RestApi, request: Request, found: tuple[str, ...]) -> Answer:
    api.job(found[0])
    answer = api.board.outcome(found[1])
    if answer is None:
        return json_answer({"status": {"id": "IN_PROGRESS"}, "operation": None})
    operation: dict[str, Any] = {"location": answer.savepoint}
    if answer.error:
        operation = {"failure-cause": {"class": "SavepointFailed", "stack-trace": answer.error}}
    return json_answer({"status": {"id": "COMPLETED"}, "operation": operation})


def _history(api: RestApi, request: Request, found: tuple[str, ...]) -> Answer:
    view, _ = api.job(found[0])
    return json_answer(shapes.history(view, api.board.history))


def _exceptions(api: RestApi, request: Request, found: tuple[str, ...]) -> Answer:
    view, _ = api.job(found[0])
    asked = request.query.get("maxExceptions", str(MOST_EXCEPTIONS))
    if not asked.isdecimal() or len(asked) > len(str(MOST_EXCEPTIONS)) + 1:
        raise Refused(400, f"maxExceptions {_short(asked)} is no small number")
    return json_answer(shapes.exceptions(view, int(asked)))


def _of_board(make: Callable[[JobView], Any]) -> _Get:
    return lambda api, request, found: json_answer(make(api.board.latest()[0]))


def _of_job(make: Callable[[JobView], Any]) -> _Get:
    return lambda api, request, found: json_answer(make(api.job(found[0])[0]))


_JOB: Final = "/jobs/([^/]+)"
_VERTEX: Final = f"{_JOB}/vertices/([^/]+)"
_CHECKPOINT: Final = f"{_JOB}/checkpoints/details/([^/]+)"

_TABLE: Final[tuple[tuple[str, str, _Get], ...]] = (
    ("GET", "/overview", _of_board(shapes.overview)),
    ("GET", "/jobs", _of_board(shapes.jobs)),
    ("GET", "/jobs/overview", _of_board(shapes.jobs_overview)),
    ("GET", _JOB, lambda api, _, found: json_answer(shapes.job_details(*api.job(found[0])))),
    ("PATCH", _JOB, _cancel),
    ("GET", f"{_JOB}/status", _of_job(lambda view: {"status": view.state})),
    ("GET", f"{_JOB}/plan", _of_job(lambda view: {"plan": shapes.plan(view)})),
    ("GET", f"{_JOB}/exceptions", _exceptions),
    ("GET", f"{_JOB}/attempts", _of_job(shapes.attempts)),
    ("GET", f"{_JOB}/transactions", _of_job(shapes.transactions)),
    ("GET", f"{_JOB}/history", _history),
    (
        "GET",
        f"{_JOB}/metrics",
        lambda api, request, found: _metrics(list(job_metrics(api.job(found[0])[0])), request),
    ),
    ("GET", f"{_JOB}/checkpoints", _of_job(checkpoint_shapes.checkpoints)),
    ("GET", f"{_JOB}/checkpoints/config", _of_job(checkpoint_shapes.checkpoint_config)),
    (
        "GET",
        _CHECKPOINT,
        lambda api, _, found: json_answer(checkpoint_shapes.checkpoint_details(*api.checkpoint(*found))),
    ),
    (
        "GET",
        f"{_CHECKPOINT}/subtasks/([^/]+)",
        lambda api, _, found: json_answer(
            checkpoint_shapes.subtask_checkpoints(
                api.checkpoint(found[0], found[1])[1], api.vertex(found[0], found[2])[2]
            )
        ),
    ),
    ("POST", f"{_JOB}/savepoints", _savepoint),
    ("POST", f"{_JOB}/stop", _stop),
    ("GET", f"{_JOB}/savepoints/([^/]+)", _outcome),
    (
        "GET",
        _VERTEX,
        lambda api, _, found: json_answer(shapes.vertex_details(*_without_rates(api.vertex(*found)))),
    ),
    (
        "GET",
        f"{_VERTEX}/backpressure",
        lambda api, _, found: json_answer(shapes.backpressure(*api.vertex(*found))),
    ),
    (
        "GET",
        f"{_VERTEX}/watermarks",
        lambda api, _, found: json_answer(shapes.watermarks(*_without_rates(api.vertex(*found)))),
    ),
    (
        "GET",
        f"{_VERTEX}/metrics",
        lambda api, request, found: _metrics(vertex_metrics(*api.vertex(*found)), request),
    ),
)
_ROUTES: Final = tuple([(method, re.compile(path), answer) for method, path, answer in _TABLE])


def _without_rates(found: tuple[JobView, Rates, VertexView]) -> tuple[JobView, VertexView]:
    return found[0], found[2]


def _short(text: object) -> str:
    shown = repr(text)
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"
