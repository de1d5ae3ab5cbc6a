"""Notices that a topic is not the one any more whose rows a reader has read (KIP-516: topic ids).

The rules this module lives by:

- A topic that is deleted and created again has its old name and another id. Its offsets begin anew, so a
  position in the old topic means other rows in the new one, or none. Positions hold the id.
- The id is compared as a reader opens, once a second while it reads, before a partition counts as read to its
  end, and when the brokers do not know the reader's offset. So a job that has ended has read one topic; one
  that is stopped within a second of the change has the old id in its savepoint, and fails as it is restored.
- Brokers are asked in the background: a task that reads never waits for an answer. All readers of a process
  share one client and its answers.
- A broker that has no ids (before Kafka 2.8) answers with zeros; nothing is compared then. What a checkpoint
  of an earlier version resumes from has no id either: a warning says so, and the topic is compared from then
  on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from concurrent.futures import Future
from threading import Lock
from typing import Any, Final, NamedTuple

from onceproof.engine.connectors.kafka.kafka_errors import missing_topic, no_broker, refused_property
from onceproof.engine.connectors.kafka.offsets import KafkaTopicPartition
from onceproof.engine.errors import UnrecoverableError

INTERVAL_S: Final = 1.0
"""How often an id is compared while a topic is read."""
REQUEST_TIMEOUT_S: Final = 10.0
_PAUSE_S: Final = 0.02
_NO_ID: Final = "A" * 22
"""Zeros, as ids are written."""


class TopicReplaced(UnrecoverableError):
    """A topic was deleted and created again since its rows were read. The message is one line."""


class Question(NamedTuple):
    """What was asked of the brokers, and when."""

    asked_at: float
    answer: Future[Any]


class TopicIds:
    """Asks the brokers for the ids of topics, in the background.

    Args:
        properties: those of the source's consumers.
        servers: for messages.
    """

    def __init__(self, properties: Mapping[str, Any], servers: str) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        self.servers = servers
        self.users = 0
        self._lock = Lock()
        self._questions: dict[str, Question] = {}
        """The latest one for each topic."""
        try:
            self._client = AdminClient(dict(properties))
        except KafkaException as error:
            raise refused_property(error.args[0], properties) from error

    def ask(self, topic: str, since: float) -> Question:
        """Return a question that was asked at this moment of the steady clock or later."""
        from confluent_kafka import TopicCollection

        with self._lock:
            known = self._questions.get(topic)
            if known is not None and known.asked_at >= since:
                return known
            now = time.monotonic()
            answers = self._client.describe_topics(
                TopicCollection([topic]), request_timeout=REQUEST_TIMEOUT_S
            )
            question = self._questions[topic] = Question(now, answers[topic])
            return question

    def current(self, topic: str) -> str:
        """Return the id of a topic, or "" if the brokers have no ids; wait for the answer.

        A topic that was just made is unknown to some brokers for a moment.

        Raises:
            MissingTopic: there is no such topic.
            KafkaUnavailable: no broker answers.
        """
        from confluent_kafka import KafkaError, KafkaException

        deadline = time.monotonic() + REQUEST_TIMEOUT_S
        while True:
            try:
                return id_of(self.ask(topic, time.monotonic()).answer.result())
            except KafkaException as error:
                said: KafkaError = error.args[0]
                if said.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise no_broker(self.servers, said.str()) from error
                if time.monotonic() > deadline:
                    raise missing_topic(topic, self.servers) from error
            time.sleep(_PAUSE_S)


class TopicWatch:
    """Compares the id of one topic for one reader.

    Args:
        ids: asks the brokers.
        place: the partition that is read.
        topic_id: the id of the topic whose rows are read; "": the brokers have no ids.
    """

    def __init__(self, ids: TopicIds, place: KafkaTopicPartition, topic_id: str) -> None:
        self._topic_id = topic_id
        self._ids = ids
        self._place = place
        self._next_at = time.monotonic() + INTERVAL_S
        self._question: Question | None = None

    def look(self, offset: int) -> None:
        """Compare now and then, without waiting. Raises TopicReplaced.

        Args:
            offset: the next one to read, for the message.
        """
        if not self._topic_id:
            return
        now = time.monotonic()
        if self._question is None:
            if now >= self._next_at:
                self._next_at = now + INTERVAL_S
                self._question = self._ids.ask(self._place.topic, now - INTERVAL_S / 2)
        elif self._question.answer.done():
            answer, self._question = self._question.answer, None
            # Brokers that are away, or do not know the topic at the moment, are what the consumer reports.
            if answer.exception() is None:
                self.compare(id_of(answer.result()), offset)

    def is_confirmed(self, since: float, offset: int) -> bool:
        """Return whether the topic was the same at this moment or later, without waiting.

        Raises:
            TopicReplaced: it is another one.
            KafkaUnavailable: the brokers do not say.
        """
        if not self._topic_id:
            return True
        question = self._ids.ask(self._place.topic, since)
        if not question.answer.done():
            return False
        error = question.answer.exception()
        if error is not None:
            raise no_broker(self._ids.servers, f"no id of topic {self._place.topic}: {error}")
        self.compare(id_of(question.answer.result()), offset)
        return True

    def compare(self, found: str, offset: int) -> None:
        """Raise TopicReplaced if the brokers have another id of the topic."""
        if found and self._topic_id and found != self._topic_id:
            topic, partition = self._place
            raise TopicReplaced(
                f"topic {topic!r} at {self._ids.servers} is not the one that the job has read: it was deleted"
                f" and created again; its id is {found}, and offset {offset} of partition {partition} is one"
                f" of topic id {self._topic_id}; start the job without state to read the new topic from its"
                " beginning"
            )

    def require_same(self, offset: int) -> None:
        """Compare, and wait for the answer. Raises TopicReplaced, MissingTopic or KafkaUnavailable."""
        if self._topic_id:
            self.compare(self._ids.current(self._place.topic), offset)

    def close(self) -> None:
        """Release what asks."""
        release(self._ids)


def id_of(description: Any) -> str:
    """Return the id in the answer for a topic, or "" if the broker has no ids."""
    text = str(description.topic_id)
    return "" if text == _NO_ID else text


_shared: dict[tuple[Any, ...], TopicIds] = {}
_shared_lock: Final = Lock()


def shared_ids(properties: Mapping[str, Any], servers: str) -> TopicIds:
    """Return what asks with these properties, the same for all readers of this process; each releases it."""
    # A forked child has none of its parent's threads.
    key = (os.getpid(), *sorted((name, str(value)) for name, value in properties.items()))
    with _shared_lock:
        ids = _shared.get(key)
        if ids is None:
            ids = _shared[key] = TopicIds(properties, servers)
        ids.users += 1
        return ids


def release(ids: TopicIds) -> None:
    """Give up what ``shared_ids`` has returned; without users its connections end."""
    with _shared_lock:
        ids.users -= 1
        if not ids.users:
            for key in [key for key, each in _shared.items() if each is ids]:
                del _shared[key]
