"""An object store in the simulation: the requests of the file sink, over the simulated external system.

The rules this module lives by:

- An upload is a transaction of the external system, and its parts are rows: so the history, the search for
  leaks, the neighbour and restored copies know it. A part must hold whole rows, as row formats write them.
- A request does what S3's does, and what a conformance test has compared with a real server.
- The scenario's parameter ``trouble`` says what goes wrong at a few of the requests that change something:

  - ``late``: the client has no answer, and the request is performed some requests later, also when the client
    is dead by then;
  - ``torn``: the client has no answer, and of a part the first half is stored;
  - ``repeated``: the request is performed, and once more some requests later;
  - ``stale``: uploads that were completed or aborted are still listed.

- The history has a request without an answer as a commit that failed: that is what a task makes of it.
- What a dead client's late request begins is dropped by the store's own rule, and no leak of the job.
- A consumer may take the visible objects away. Their rows have been visible once, so the history keeps them;
  no request finds them any more. It leaves the notes of commits (``.committed/``) where they are: they have
  no rows, and readers do not see them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from onceproof.engine.connectors.object_sink_function import NOTES
from onceproof.engine.connectors.part_objects import mark_of_object
from onceproof.engine.object_calls import FoundObject, FoundUpload, ObjectInTheWay, UploadMissing
from onceproof.harness.model.family import S3
from onceproof.harness.model.history import as_tuple
from onceproof.harness.model.injected_error import InjectedError
from onceproof.harness.model.scenario import Parameter
from onceproof.harness.systems.simulation.client_errors import client_error, reported_by
from onceproof.harness.systems.simulation.external_system import (
    ABORTED,
    COMMITTED,
    OPEN,
    Transaction,
    TransactionalSystem,
)

LATE: Final = "late"
TORN: Final = "torn"
REPEATED: Final = "repeated"
STALE: Final = "stale"
TROUBLES: Final = ("none", LATE, TORN, REPEATED, STALE)
_MOST: Final = 4
"""So many requests of a run are in trouble: later ones must get through."""
_EVERY: Final = 5
_LATER: Final = (1, 3, 6, 11)
"""After so many further requests each of them is performed."""

_Answer = TypeVar("_Answer")


class RequestLost(OSError, InjectedError):
    """A request has had no answer; it may have been performed, or be performed later."""


class StoreTrouble:
    """What goes wrong between the store and its clients in one run."""

    def __init__(self, parameters: Mapping[str, Parameter], lost: Callable[[int], None]) -> None:
        self._lost = lost
        self.kind = str(parameters.get("trouble", "none"))
        if self.kind not in TROUBLES:
            raise ValueError(f"trouble {self.kind!r}: an object store knows {', '.join(TROUBLES)}")
        self._next = int(parameters.get("trouble_from", 1))
        self._requests = 0
        self._struck = 0
        self._on_the_way: list[tuple[int, Callable[[], object]]] = []

    def pass_request(
        self, what: str, key: str, request: Callable[[], _Answer], torn: Callable[[], object] | None = None
    ) -> _Answer:
        """Perform a request, unless it is in trouble. Raises RequestLost, and what the request raises."""
        self._requests += 1
        self._land()
        if self._struck == _MOST or self._requests < self._next or self.kind in ("none", STALE):
            return request()
        self._next += _EVERY
        self._struck += 1
        due = self._requests + _LATER[self._struck - 1]
        match self.kind:
            case "late":
                self._on_the_way.append((due, request))
            case "torn":
                if torn is not None:
                    torn()
            case "repeated":
                self._on_the_way.append((due, request))
                return request()
        mark = mark_of_object(os.path.basename(key))
        assert mark is not None, "only part files are written"
        self._lost(mark.subtask)
        raise RequestLost(110, f"{what} {key}: no answer")

    def _land(self) -> None:
        """Perform the requests on their way whose time has come; their answers reach no client."""
        due = [each for at, each in self._on_the_way if at <= self._requests]
        self._on_the_way = [each for each in self._on_the_way if each[0] > self._requests]
        for request in due:
            try:
                request()
            except OSError:
                continue


class SimulatedObjectCalls:
    """The requests to the one bucket of the simulation (`engine/object_calls.py`)."""

    def __init__(self, system: TransactionalSystem, trouble: StoreTrouble) -> None:
        self._system = system
        self._trouble = trouble

    @property
    def has_consumer(self) -> bool:
        """Whether a consumer takes visible objects away."""
        return self._system.has_consumer

    def new_token(self) -> str:
        """Return the number of transactions so far."""
        return f"token-{len(self._system.transactions)}"

    def find(self, key: str) -> FoundObject | None:
        found = self._object(key)
        if found is None:
            return None
        return FoundObject(found.lengths[-1] if found.lengths else 0, found.token)

    def begin_upload(self, key: str, token: str) -> str:
        client_lives = True

        def begin() -> str:
            name = self._begin(key, token)
            if not client_lives:
                self._system.begun_late.add(name)
            return name

        try:
            return self._trouble.pass_request("begin of", key, begin)
        finally:
            client_lives = False

    def put_part(self, key: str, upload_id: str, number: int, data: bytes) -> str:
        def put(part: bytes = data) -> str:
            transaction = self._upload(key, upload_id)
            if len(transaction.counts) >= number:
                return f"{upload_id}#{number}"  # The same part once more.
            for line in () if _is_note(key) else part.splitlines():
                self._system.write(transaction.name, as_tuple(msgspec.json.decode(line)))
            before = transaction.lengths[-1] if transaction.lengths else 0
            transaction.counts.append(len(transaction.rows))
            transaction.lengths.append(before + len(part))
            return f"{upload_id}#{number}"

        half = b"".join(data.splitlines(keepends=True)[: data.count(b"\n") // 2])
        return self._trouble.pass_request(f"part {number} of", key, put, lambda: put(half))

    def complete_upload(self, key: str, upload_id: str, tags: Sequence[str]) -> None:
        listed = list(tags)
        self._trouble.pass_request("completion of", key, lambda: self._complete(key, upload_id, listed))

    def abort_upload(self, key: str, upload_id: str) -> None:
        def abort() -> None:
            try:
                with reported_by(S3):
                    self._system.ask_to_abort(self._upload(key, upload_id).name)
            except UploadMissing:
                return

        self._trouble.pass_request("abort of", key, abort)

    def has_upload(self, key: str, upload_id: str) -> bool:
        try:
            self._upload(key, upload_id)
        except UploadMissing:
            return False
        return True

    def uploads(self, prefix: str) -> list[FoundUpload]:
        states = (OPEN, COMMITTED, ABORTED) if self._trouble.kind == STALE else (OPEN,)
        return [
            FoundUpload(each.key, each.name)
            for each in list(self._system.transactions.values())
            if each.key.startswith(prefix) and each.key and each.state in states
        ]

    def commits_failed(self, names: Iterable[str]) -> None:
        """Enter into the history that files do not become visible in their turn."""
        self._system.commits_failed(names)

    # ---- what the store does

    def _begin(self, key: str, token: str) -> str:
        name = os.path.basename(key)
        mark = mark_of_object(name)
        assert mark is not None, "only part files and notes of their commits are written"
        if _is_note(key):
            name = f"{NOTES}/{name}"
        while name in self._system.transactions:
            name += "'"
        self._system.begin(mark.subtask, mark.epoch, mark.attempt, mark.owner, name=name)
        transaction = self._system.transactions[name]
        transaction.key, transaction.token, transaction.can_vanish = key, token, not _is_note(key)
        return name

    def _complete(self, key: str, upload_id: str, tags: Sequence[str]) -> None:
        visible = self._object(key)
        if visible is not None and visible.name == upload_id:
            return  # Servers answer a repeated completion as the first one.
        if visible is not None:
            raise ObjectInTheWay(17, "there is an object already")
        transaction = self._upload(key, upload_id)
        parts = len(transaction.counts)
        if not tags or parts < len(tags):
            raise OSError(22, "a part was not stored")
        del transaction.rows[transaction.counts[len(tags) - 1] :]
        del transaction.lengths[len(tags) :]
        if _is_note(key):
            transaction.state = COMMITTED
            return
        self._system.prepare(upload_id)
        try:
            self._system.commit(upload_id)
        except InjectedError as error:
            if transaction.state != COMMITTED:
                transaction.state = OPEN
            raise client_error(error, S3) or RequestLost(110, str(error)) from error

    def _object(self, key: str) -> Transaction | None:
        for each in self._system.transactions.values():
            if each.key == key and each.state == COMMITTED and not each.is_taken:
                return each
        return None

    def _upload(self, key: str, upload_id: str) -> Transaction:
        found = self._system.transactions.get(upload_id)
        if found is None or found.key != key or found.state != OPEN:
            raise UploadMissing(2, "no such upload")
        return found


def _is_note(key: str) -> bool:
    return f"/{NOTES}/" in key
