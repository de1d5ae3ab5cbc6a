"""The input topic of a scenario, which changes under its job: it is created again, or loses rows.

The rules this module lives by:

- What changes it is the system on trial, which fills it: first all records are written, so that no record of
  the scenario comes into the new topic.
- A topic that is created again is empty at first, and has other rows once the next attempt begins. An engine
  that compares topics does so now and then while it reads; until then it would take other rows for its own.
- A topic that loses rows loses them all: the offset of each checkpoint that does not cover a whole partition
  is one that the broker does not have any more. What a reader has fetched before, it may still read.
- A broker that a fault has struck is waited for. One that is killed may have its deleted rows again, because
  Kafka writes down later where a partition begins: they are deleted again as the next attempt begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from onceproof.harness.model.scenario import Fault, InputRecord
from onceproof.harness.services.service import ServiceError
from onceproof.harness.systems.process.job_specification import TrialTopics
from onceproof.harness.systems.process.kafka_clients import client_settings, writer_settings

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_SECONDS_TO_CHANGE: Final = 60.0
_SECONDS_TO_ANSWER: Final = 5.0
_SECONDS_BETWEEN_TRIES: Final = 0.05


class ChangingTopic:
    """Changes the input topic of a scenario (`server_strikes.StruckInput`).

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
