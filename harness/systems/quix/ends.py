"""Builds the application of a family, between the topics of a scenario.

Rules:

- A family takes part with the function ``jobs["quix"](records, io)``. It gets a StreamingDataFrame of
  records, and returns one of rows. So a family in ``scenarios`` need not import Quix Streams.
- A partition of the input topic is a split, and the key of a message is its name. Behind the last record of a
  split comes one that is its end, by whose time windows close; only ``io.until_end()`` has it.
- Rows go to a topic. A transaction of Kafka has them together with the offsets and the changes of states,
  unless the scenario asks for at least once.
- Each worker has a folder of its own for its states, as on a disk of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from confluent_kafka import KafkaError, KafkaException
from quixstreams import Application

from onceproof.harness.model.family import Family, options_of
from onceproof.harness.model.scenario import Parameter
from onceproof.harness.systems.process.job_specification import Spec
from onceproof.harness.systems.quix.events import ROWS, worker_name
from onceproof.harness.systems.quix.probe import AppProbe

DataFrame: TypeAlias = Any
"""A StreamingDataFrame of Quix Streams, which is not installed where types are checked."""

COMMIT_INTERVAL_S: Final = 0.2
"""The longest time from one checkpoint to the next; most come sooner, by the number of records."""
SESSION_TIMEOUT_MS: Final = 2_000
HEARTBEAT_MS: Final = 300
TRANSACTION_TIMEOUT_MS: Final = 5_000
POLL_S: Final = 0.02
MOST_TRIES: Final = 3


class AppIO:
    """What a family's application gets beside its records."""

    def __init__(self, spec: Spec, source: DataFrame) -> None:
        self.parameters: Mapping[str, Parameter] = spec.parameters
        self._source = source

    def until_end(self) -> DataFrame:
        """Return the records and the end of each split, all with their event time as timestamp.

        A record that is an end has ``is_end``, and its time is behind every window that has a record.
        """
        return self._source.set_timestamp(lambda record, key, timestamp, headers: record["timestamp"])


def build_app(family: Family, spec: Spec, index: int, probe: AppProbe) -> Application:
    """Return the application of a family, for one worker."""
    topics = spec.kafka
    assert topics is not None, "an application lives between topics"
    is_exactly_once = spec.barriers != "at_least_once"
    app = Application(
        broker_address=topics.servers_of_job,
        consumer_group=topics.prefix,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once" if is_exactly_once else "at-least-once",
        commit_interval=COMMIT_INTERVAL_S,
        commit_every=spec.interval_records,
        consumer_poll_timeout=POLL_S,
        state_dir=state_folder(spec, index),
        consumer_extra_config={
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            **({"group.instance.id": worker_name(index)} if has_static_members(spec) else {}),
        },
        producer_extra_config=(
            {
                "transactional.id": f"{topics.prefix}-{index}",
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            }
            if is_exactly_once
            else {}
        ),
        loglevel="WARNING",
    )
    given = app.topic(topics.input_topic, key_deserializer="str", value_deserializer="json")
    written = app.topic(topics.output_topic(ROWS), key_serializer="str", value_serializer="json")
    source = app.dataframe(given).apply(probe.read, metadata=True).set_headers(probe.headers)
    records = source.filter(lambda record: not record["is_end"])
    rows = options_of(family).jobs["quix"](records, AppIO(spec, source))
    rows.set_headers(probe.headers).to_topic(written)
    return app


def build_app_in_time(family: Family, spec: Spec, index: int, probe: AppProbe) -> Application:
    """Return ``build_app``, tried again where the broker of a busy machine answers too late.

    An application asks for its topics as it is built. It has read nothing by then.
    """
    for _ in range(MOST_TRIES - 1):
        try:
            return build_app(family, spec, index, probe)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._TIMED_OUT:
                raise
    return build_app(family, spec, index, probe)


def has_static_members(spec: Spec) -> bool:
    """Return whether a worker that starts again takes its old place in the consumer group at once.

    Otherwise the group gives its partitions to others when it has been silent for a while.
    """
    return spec.source_parallelism % 2 == 1


def state_folder(spec: Spec, index: int) -> Path:
    """Return the folder with the states of a worker."""
    return Path(spec.checkpoints) / worker_name(index)
