"""The real servers that families ask for: Kafka, PostgreSQL, an object store; one of each for a system.

Rules:

- A server starts with the first scenario that needs it and stops with the system; its folder goes with it. It
  dies with the process that started it, however that dies: the pool of a run kills its workers.
- Each scenario has a place of its own on a server: topics, a database, a part of a bucket.
- Faults strike a server, and it comes back on the same data and port (`server_strikes.py`). A job reaches it
  through a proxy that cuts connections. Its disk need not be synced: no fault kills the machine.
- An object store is killed only if its objects survive that: no real store loses them when it restarts.
- The records of a scenario come into its topic one after another while the job runs. So a reader often has
  nothing to read, and takes its last snapshots before the last record is there.
- Another job has an upload open beside the part files of the job on trial, and its mark looks like those of
  that job but for the owner. It must still be there in the end.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

import msgspec

from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.services.cutting_proxy import CuttingProxy
from onceproof.harness.services.kafka_broker import KafkaBroker
from onceproof.harness.services.object_store_server import BUCKET, ObjectStoreServer
from onceproof.harness.services.postgres_server import PostgresServer
from onceproof.harness.services.service import LOOPBACK, ServiceError
from onceproof.harness.systems.process.job_specification import TrialObjects, TrialTopics
from onceproof.harness.systems.process.kafka_clients import client_settings, writer_settings
from onceproof.harness.systems.process.kafka_groups import delete_groups
from onceproof.harness.systems.process.server_strikes import ChangingTopic, MortalService, StruckServer

Server = TypeVar("Server", bound=MortalService)


class TrialServer(ABC, Generic[Server]):
    """A server for scenarios, one after another.

    Args:
        running: a server that runs already, and is not stopped at the end; None: one of its own.
    """

    name: ClassVar[str]
    """Of the server, for the name of its folder."""

    def __init__(self, running: Server | None = None) -> None:
        self._server: Server | None = running
        self._is_own = running is None
        self._struck: StruckServer | None = None
        self._scenarios = 0

    @abstractmethod
    def new_server(self, folder: Path) -> Server:
        """Return a server with its data in a new folder, not yet started."""

    def struck_by_faults(self, server: Server) -> StruckServer:
        """Return the running server as faults see it."""
        return StruckServer(server)

    @property
    def server(self) -> Server:
        """The server, which is started if it is not yet. Raises ServiceError, ExtraMissing."""
        if self._server is None:
            folder = Path(tempfile.mkdtemp(prefix=f"onceproof-{self.name}-"))
            server = self.new_server(folder)
            try:
                server.start()
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            self._server = server
        return self._server

    @property
    def struck(self) -> StruckServer:
        """The server as faults see it. Raises ServiceError, ExtraMissing."""
        if self._struck is None:
            self._struck = self.struck_by_faults(self.server)
        return self._struck

    def next_name(self) -> str:
        """Return a name for what the next scenario has on the server."""
        self._scenarios += 1
        return f"trial{self._scenarios}"

    def close(self) -> None:
        """Stop the server, and delete its folder, if it is one of its own; let another one run on."""
        struck, self._struck = self._struck, None
        if struck is not None:
            struck.close()
        server = self._server
        if server is None:
            return
        if self._is_own:
            self._server = None
            server.kill()
            shutil.rmtree(server.folder, ignore_errors=True)
        elif struck is not None and struck.was_restarted:
            server.kill()
            server.start()


PACE_S: Final = 0.01
"""From one record to the next."""
_SECONDS_TO_DELETE: Final = 60.0
_SECONDS_BETWEEN_LOOKS: Final = 0.02


class OwnTopics(NamedTuple):
    """Topics of one trial."""

    servers: str
    """Of the broker, for the harness."""
    servers_of_job: str
    """The same through a proxy, for the job."""
    names: Mapping[str, str]
    """The names of the topics, by those that were asked for."""


class TrialKafka(TrialServer[KafkaBroker]):
    """A broker for scenarios."""

    name = "kafka"

    def new_server(self, folder: Path) -> KafkaBroker:
        return KafkaBroker(folder, dies_with_parent=True, has_proxy=True)

    def struck_by_faults(self, server: KafkaBroker) -> StruckServer:
        """Return the broker behind the proxy to which it sends its clients itself."""
        return StruckServer(server, CuttingProxy(server.proxied_port, server.proxy_port))

    @contextmanager
    def own_topics(self, partitions: Mapping[str, int], fixed: Mapping[str, str]) -> Iterator[OwnTopics]:
        """Yield new topics with so many partitions each.

        They are deleted afterwards, and so is what a program has made on the broker: topics of its states
        and groups. Under the same names the next trial would find the states of this one.

        ``fixed`` are the names of those that have the same name in each trial.

        Raises:
            ServiceError: the broker does not answer, also what is asked while they are there.
        """
        from onceproof.harness.systems.process.kafka_io import make_topics

        broker, struck = self.server, self.struck
        trial = self.next_name()
        names = {name: fixed.get(name, f"{trial}-{name}") for name in partitions}
        with _asked_in_vain(broker):
            if fixed:
                delete_topics(broker.address, set(fixed.values()).__contains__)
            make_topics(broker.address, {names[name]: count for name, count in partitions.items()})
            others = topic_names(broker.address) - set(names.values())
            try:
                yield OwnTopics(broker.address, f"{LOOPBACK}:{struck.port}", names)
            finally:
                delete_groups(broker.address)
                delete_topics(broker.address, lambda name: name not in others and not name.startswith("__"))

    @contextmanager
    def topics(
        self,
        records: Mapping[str, Sequence[InputRecord]],
        encode: Callable[[InputRecord], bytes] = msgspec.json.encode,
    ) -> Iterator[TrialTopics]:
        """Yield the topics of a scenario, whose input is filled meanwhile; they are deleted afterwards."""
        with self.changing_topics(records, encode) as (topics, _):
            yield topics

    @contextmanager
    def changing_topics(
        self,
        records: Mapping[str, Sequence[InputRecord]],
        encode: Callable[[InputRecord], bytes] = msgspec.json.encode,
    ) -> Iterator[tuple[TrialTopics, ChangingTopic]]:
        """Yield the same with what changes the input."""
        from onceproof.harness.systems.process.kafka_io import make_topics

        broker, struck = self.server, self.struck
        lengths = {split: len(rows) for split, rows in records.items()}
        topics = TrialTopics(broker.address, f"{LOOPBACK}:{struck.port}", self.next_name(), lengths)
        make_topics(broker.address, {topics.input_topic: len(lengths)})
        ends, hurries = threading.Event(), threading.Event()
        refused: list[str] = []

        def fill() -> None:
            feed(topics, records, ends, hurries, refused, encode)

        feeder = threading.Thread(target=fill, daemon=True)
        feeder.start()

        def fill_at_once() -> None:
            hurries.set()
            feeder.join()

        try:
            yield topics, ChangingTopic(topics, records, fill_at_once, encode)
        finally:
            ends.set()
            feeder.join()
            self._delete(topics)
        if refused:
            raise ServiceError(f"kafka: {topics.input_topic} has not taken a record: {refused[0]}")

    def _delete(self, topics: TrialTopics) -> None:
        """Delete the topics of a scenario, and end what is open; a broker in trouble is left alone."""
        from confluent_kafka import KafkaException

        from onceproof.engine.connectors.kafka.broker_transactions import BrokerTransactions

        with suppress(OSError, KafkaException):
            cluster = BrokerTransactions({"bootstrap.servers": topics.servers})
            try:
                for handle in cluster.open_transactions(f"{topics.prefix}-"):
                    cluster.abort(handle)
            finally:
                cluster.close()
        delete_topics(topics.servers, lambda name: name == topics.input_topic or topics.is_output(name))


@contextmanager
def _asked_in_vain(broker: KafkaBroker) -> Iterator[None]:
    """Raise ServiceError where the harness has asked the broker of its trials and got no answer in time."""
    from confluent_kafka import KafkaError, KafkaException

    try:
        yield
    except (KafkaException, TimeoutError) as error:
        cause = error.args[0] if error.args else None
        # What a broker answers has a code from 0 on; the others are the client's own.
        if isinstance(cause, KafkaError) and cause.code() >= 0:
            raise
        said = f" ({cause.str()})" if isinstance(cause, KafkaError) else ""
        raise ServiceError(
            f"kafka: the broker of the trials at {broker.address} does not answer in time{said}: where the"
            " machine is too busy for it, run fewer scenarios at a time (-n 1)"
        ) from error


def topic_names(servers: str) -> set[str]:
    """Return the names of all topics. Raises KafkaException."""
    from confluent_kafka.admin import AdminClient

    return set(AdminClient(client_settings(servers)).list_topics(timeout=_SECONDS_TO_DELETE).topics)


def delete_topics(servers: str, is_own: Callable[[str], bool]) -> None:
    """Delete topics; a broker in trouble is left alone."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    with suppress(KafkaException, TimeoutError):
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        known = admin.list_topics(timeout=_SECONDS_TO_DELETE).topics
        own = [name for name in known if is_own(name)]
        if own:
            for deleted in admin.delete_topics(own, operation_timeout=_SECONDS_TO_DELETE).values():
                deleted.result(_SECONDS_TO_DELETE)
            # Another topic may take the name only when this one is gone.
            deadline = time.monotonic() + _SECONDS_TO_DELETE
            while time.monotonic() < deadline:
                if not any(map(is_own, admin.list_topics(timeout=_SECONDS_TO_DELETE).topics)):
                    break
                time.sleep(_SECONDS_BETWEEN_LOOKS)


def feed(
    topics: TrialTopics,
    records: Mapping[str, Sequence[InputRecord]],
    ends: threading.Event,
    hurries: threading.Event,
    refused: list[str],
    encode: Callable[[InputRecord], bytes] = msgspec.json.encode,
) -> None:
    """Write the records of all splits in turn, until ``ends`` is set, ``PACE_S`` apart until ``hurries`` is.

    The key of a message is the name of its split.

    ``refused`` gets why the broker has not taken a record. Nothing is written behind it, because the reader
    of the job would count wrongly.
    """
    from confluent_kafka import KafkaError, Message, Producer

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            refused.append(error.str())

    producer = Producer(writer_settings(topics.servers))
    for in_turn in zip_longest(*records.values()):
        for number, (split, record) in enumerate(zip(records, in_turn, strict=True)):
            if record is None:
                continue
            producer.produce(
                topics.input_topic,
                encode(record),
                key=split,
                partition=number,
                on_delivery=delivered,
            )
            producer.poll(0)
            if refused or ends.wait(0 if hurries.is_set() else PACE_S):
                return
    while producer.flush(0.1) and not ends.is_set():
        pass


_SETTINGS: Final = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off"}


class TrialDatabase(NamedTuple):
    """An empty database of a scenario."""

    address: str
    """For the harness."""
    address_of_job: str
    """For the job, through a proxy."""


class TrialPostgres(TrialServer[PostgresServer]):
    """A PostgreSQL server for scenarios."""

    name = "postgres"

    def new_server(self, folder: Path) -> PostgresServer:
        folder.chmod(0o755)
        return PostgresServer(folder, settings=_SETTINGS, dies_with_parent=True)

    @contextmanager
    def database(self) -> Iterator[TrialDatabase]:
        """Yield the addresses of an empty database, which is dropped afterwards."""
        import psycopg

        server, struck = self.server, self.struck
        name = self.next_name()
        with psycopg.connect(server.address, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        try:
            address = server.address_of(name)
            yield TrialDatabase(address, address.replace(f":{server.port}/", f":{struck.port}/"))
        finally:
            self._drop(name)

    def _drop(self, name: str) -> None:
        import psycopg
        from psycopg import sql

        server = self.server
        with suppress(psycopg.Error):
            with psycopg.connect(server.address_of(name), autocommit=True) as connection:
                left = connection.execute(
                    "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
                ).fetchall()
                for (gid,) in left:
                    # A program gives its transactions the names that it likes.
                    connection.execute(sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(gid)))
            with psycopg.connect(server.address, autocommit=True) as connection:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


class TrialObjectStore(TrialServer[ObjectStoreServer]):
    """An object store for scenarios."""

    name = "s3"

    def new_server(self, folder: Path) -> ObjectStoreServer:
        return ObjectStoreServer(folder, dies_with_parent=True)

    @property
    def survives_kills(self) -> bool:
        """Whether the objects are still there after a kill of the store that is used, or would be."""
        return (self._server or self.new_server(Path())).survives_kills

    @contextmanager
    def place(self) -> Iterator[TrialObjects]:
        """Yield a place without objects; what is there in the end is deleted."""
        # It imports a client, which only some families need.
        from onceproof.harness.systems.process.object_io import NEIGHBOUR_PART, StoreReader

        server, struck = self.server, self.struck
        environment = server.environment
        through_proxy = {**environment, "AWS_ENDPOINT_URL": f"http://{LOOPBACK}:{struck.port}"}
        objects = TrialObjects(BUCKET, self.next_name(), environment, through_proxy)
        reader = StoreReader(objects)
        reader.begin_upload("output", NEIGHBOUR_PART)
        try:
            yield objects
        finally:
            reader.ask(reader.drop)
