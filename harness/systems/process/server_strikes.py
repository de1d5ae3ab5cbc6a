"""Kills, pauses and cuts off the servers of a trial, and changes its topic, when a process passes a point.

Rules:

- The system on trial starts the servers and fills the topic, so it strikes them as well: it must start them
  again, and let them run on, whatever becomes of the process of the job that has asked for it.
- A process of the job asks over a socket of the machine (`strike_requests.py`), and continues when the answer
  comes: the server is dead or stopped by then, the proxy knows what to cut next, or the topic has changed.
  Only this user may enter the socket's folder.
- A server is back after the fault's delay, on the same data and port. Other deaths are repaired at once.
- The job reaches a server through a proxy. The harness reaches it directly, so no cut hits the harness.
- Before a topic changes, all records are written, so that none of the scenario comes into the new topic.
- A topic that is created again is empty at first, and has other rows once the next attempt begins. An engine
  that compares topics does so now and then while it reads; until then it would take other rows for its own.
- A topic that loses rows loses them all: the offset of each checkpoint that does not cover a whole partition
  is one that the broker no longer has. What a reader has fetched before, it may still read. A broker that is
  killed may have its deleted rows again, because Kafka writes down later where a partition begins: they are
  deleted again as the next attempt begins.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import msgspec

from onceproof.harness.model.scenario import Fault, InputRecord
from onceproof.harness.services.cutting_proxy import CuttingProxy, Observer
from onceproof.harness.services.service import Service, ServiceError
from onceproof.harness.systems.process.job_specification import TrialTopics
from onceproof.harness.systems.process.kafka_clients import client_settings, writer_settings
from onceproof.harness.systems.process.strike_requests import DONE

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


SHORT_REQUEST_MS: Final = 250
"""The time-out of requests in scenarios with pauses: half of the pauses are longer."""
_SECONDS_BETWEEN_LOOKS: Final = 0.02
_SECONDS_TO_COME_BACK: Final = 30.0


class MortalService(Service, Protocol):
    """A server that this process has started."""

    def has_died(self) -> bool:
        """Return whether it has ended by itself, or was killed."""


class StruckServer:
    """A running server that faults may strike, and its proxy.

    Args:
        service: the server, which runs.
        proxy: in front of it; None: one at a free port.
    """

    def __init__(self, service: MortalService, proxy: CuttingProxy | None = None) -> None:
        self._service = service
        self._proxy = proxy or CuttingProxy(service.port)
        self.port = self._proxy.port
        """Of the proxy, for the job."""
        self.was_restarted = False
        """Whether the thread of this object has started the server. A server that ends with its parent ends
        with that thread, on Linux."""
        self._dead_until = 0.0
        self._paused_until: float | None = None
        self._lock = threading.Lock()
        """Held while the server is killed, started, stopped or let run on."""
        self._ends = threading.Event()
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()

    def strike(self, fault: Fault) -> None:
        """Carry out a fault of the server, and return when it has struck."""
        seconds = fault.delay / 1000
        match fault.kind:
            case "kill_server":
                self.kill(seconds)
            case "pause_server":
                with self._lock:
                    self._service.pause()
                    self._paused_until = time.monotonic() + seconds
            case "cut_connection":
                self._proxy.cut_next("answer" if fault.means == "answer" else "request")
            case other:
                raise ValueError(f"{other} strikes no server")

    def kill(self, seconds: float) -> None:
        """Kill the server, which is back after a while; no object store in memory, which would lose all.

        ``seconds`` is how long it is away.
        """
        with self._lock:
            self._dead_until = time.monotonic() + seconds
            self._paused_until = None
            self._service.kill()

    def observe_with(self, new_observer: Callable[[], Observer] | None) -> None:
        """Let each new connection of the job have an observer; None: no more."""
        self._proxy.observe_with(new_observer)

    def calm(self) -> None:
        """Take back what still waits to strike, and return when the server runs. Raises ServiceError."""
        self._proxy.cut_next("")
        deadline = time.monotonic() + _SECONDS_TO_COME_BACK
        while time.monotonic() < deadline:
            with self._lock:
                if self._paused_until is None and not self._service.has_died():
                    return
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        raise ServiceError(
            f"{self._service.name}: the server in {self._service.folder} was struck by a fault and is not"
            f" back within {_SECONDS_TO_COME_BACK:g} s: see its log there"
        )

    def close(self) -> None:
        """Leave the server alone; see ``was_restarted``."""
        self._ends.set()
        self._keeper.join()
        self._proxy.close()
        if self._paused_until is not None:
            self._service.resume()

    def _keep(self) -> None:
        """Start the server again when it is dead, and let it run on when its pause is over."""
        while not self._ends.wait(_SECONDS_BETWEEN_LOOKS):
            with self._lock:
                now = time.monotonic()
                if self._paused_until is not None and now >= self._paused_until:
                    self._service.resume()
                    self._paused_until = None
                if self._service.has_died() and now >= self._dead_until:
                    self.was_restarted = True
                    with contextlib.suppress(ServiceError):
                        self._service.start()


class StrikeSocket:
    """Takes the faults of servers from processes of a job, while its context lasts.

    Args:
        servers: by name, those that may be struck.
        changing: the input that may be changed.
    """

    def __init__(self, servers: Mapping[str, StruckServer], changing: ChangingTopic | None = None) -> None:
        self._servers = servers
        self._changing = changing
        self._folder = Path(tempfile.mkdtemp(prefix="onceproof-strikes-"))
        self.address = str(self._folder / "socket")
        """What ``strike_server`` is given."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.address)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        shutil.rmtree(self._folder, ignore_errors=True)
        for server in self._servers.values():
            server.calm()
        if self._changing is not None:
            self._changing.calm()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                # A process that dies while it asks is no reason to end.
                with connection, contextlib.suppress(OSError, msgspec.DecodeError, KeyError):
                    fault = msgspec.json.decode(connection.makefile("rb").readline(), type=Fault | None)
                    self._take(fault)
                    connection.sendall(DONE)

    def _take(self, fault: Fault | None) -> None:
        if fault is not None and fault.server:
            self._servers[fault.server].strike(fault)
        elif self._changing is not None:
            if fault is None:
                self._changing.attempt_begins()
            else:
                self._changing.strike(fault)


def request_timeout_ms(faults: Iterable[Fault]) -> int:
    """Return the time-out of a job's requests to its servers; 0: the engine's default."""
    return SHORT_REQUEST_MS if any(fault.kind == "pause_server" for fault in faults) else 0


_SECONDS_TO_CHANGE: Final = 60.0
_SECONDS_TO_ANSWER: Final = 5.0
_SECONDS_BETWEEN_TRIES: Final = 0.05


class ChangingTopic:
    """The input topic of a scenario, which faults change: it is created again, or loses rows.

    Args:
        topics: of the scenario.
        records: of the scenario.
        fill_at_once: writes the records that are not in the topic yet, and returns when they are.
        encode: makes messages of records.
    """

    def __init__(
        self,
        topics: TrialTopics,
        records: Mapping[str, Sequence[InputRecord]],
        fill_at_once: Callable[[], None],
        encode: Callable[[InputRecord], bytes],
    ) -> None:
        self._topics = topics
        self._records = records
        self._fill_at_once = fill_at_once
        self._encode = encode
        self._is_empty = False
        """Whether the topic was created again and has no rows yet."""
        self._has_expired = False
        self._failure = ""

    def strike(self, fault: Fault) -> None:
        """Change the topic by the means of a fault. Raises OSError."""
        self._fill_at_once()
        admin = self._admin()
        if fault.means == "expired":
            self._has_expired = True
            self._done(f"delete the rows of {self._topic}", lambda: self._expire(admin))
            return
        old = self._id(admin)
        self._done(f"delete {self._topic}", lambda: self._delete(admin, old))
        self._done(f"create {self._topic} again", lambda: self._create(admin, old))
        self._is_empty = True

    def attempt_begins(self) -> None:
        """Fill a topic that was created again, with other rows. Raises OSError."""
        if self._has_expired:
            admin = self._admin()
            self._done(f"delete the rows of {self._topic} again", lambda: self._expire(admin))
        if self._is_empty:
            self._is_empty = False
            self._write_other_rows()

    def calm(self) -> None:
        """Raise ServiceError if the topic could not be changed."""
        if self._failure:
            raise ServiceError(f"kafka: {self._failure}")

    # ---- internal

    @property
    def _topic(self) -> str:
        return self._topics.input_topic

    def _admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        return AdminClient(client_settings(self._topics.servers))

    def _done(self, what: str, is_done: Callable[[], bool]) -> None:
        """Try until it is done. Raises OSError."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + _SECONDS_TO_CHANGE
        said = ""
        while time.monotonic() < deadline:
            try:
                if is_done():
                    return
            except (KafkaException, TimeoutError) as error:
                said = f": {error.args[0].str()}" if isinstance(error, KafkaException) else ""
            time.sleep(_SECONDS_BETWEEN_TRIES)
        self._fail(f"the broker does not {what} within {_SECONDS_TO_CHANGE:g} s{said}")

    def _fail(self, why: str) -> None:
        self._failure = why
        raise OSError(why)

    def _id(self, admin: AdminClient) -> str:
        """Return the id of the topic; "" if there is none. Raises OSError."""
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        found: list[str] = []

        def is_known() -> bool:
            asked = admin.describe_topics(TopicCollection([self._topic]), request_timeout=_SECONDS_TO_ANSWER)
            try:
                found.append(str(asked[self._topic].result().topic_id))
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
                found.append("")
            return True

        self._done(f"tell the id of {self._topic}", is_known)
        return found[0]

    def _delete(self, admin: AdminClient, old: str) -> bool:
        """Delete the topic; return whether the broker has no topic of this id."""
        if self._id(admin) != old:
            return True
        deleted = admin.delete_topics([self._topic], operation_timeout=_SECONDS_TO_ANSWER)
        deleted[self._topic].result(_SECONDS_TO_ANSWER)
        return self._id(admin) != old

    def _create(self, admin: AdminClient, old: str) -> bool:
        """Create the topic again; return whether the broker shows another one with all partitions."""
        from onceproof.harness.systems.process.kafka_io import make_topics

        make_topics(self._topics.servers, {self._topic: len(self._records)})
        return self._id(admin) not in ("", old)

    def _expire(self, admin: AdminClient) -> bool:
        """Delete all rows, as the retention of the topic would."""
        from confluent_kafka import TopicPartition

        ends = [
            TopicPartition(self._topic, number, len(rows))
            for number, rows in enumerate(self._records.values())
            if rows
        ]
        for deleted in admin.delete_records(ends, request_timeout=_SECONDS_TO_ANSWER).values():
            deleted.result(_SECONDS_TO_ANSWER)
        return True

    def _write_other_rows(self) -> None:
        """Write as many rows as were there, the last ones first."""
        from confluent_kafka import Producer

        refused: list[str] = []

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                refused.append(error.str())

        producer = Producer(writer_settings(self._topics.servers))
        for number, (split, rows) in enumerate(self._records.items()):
            for record in reversed(rows):
                producer.produce(
                    self._topic, self._encode(record), key=split, partition=number, on_delivery=delivered
                )
        left = producer.flush(_SECONDS_TO_CHANGE)
        if refused or left:
            self._fail(f"{self._topic} has not taken {left or len(refused)} other rows: {refused[:1]}")
