"""The warning at the start of a job whose source cannot be replayed."""

from __future__ import annotations

import pytest

from onceproof.engine import (
    Encoder,
    FileSink,
    Sink,
    SinkWriter,
    SqliteUpsertSink,
    SupportsCommitter,
    TwoPhaseCommitSinkFunction,
)
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.runtime.job_warnings import warn_of_lossy_sources


class Once(CollectionSource):
    """Values that come only once."""

    can_be_replayed = False


class Writing(Sink):
    """A sink without a committer."""

    def create_writer(self, context):
        return SinkWriter()


class Committing(SupportsCommitter):
    """A sink with one."""

    def create_committer(self, context):
        raise NotImplementedError


class Transactions(TwoPhaseCommitSinkFunction):
    begin_transaction = invoke_transaction = pre_commit = commit = abort = None


def file_sink(stream):
    stream.sink_to(FileSink.for_row_format("out", Encoder.csv_encoder()).build()).name("files")


def two_phase(stream):
    stream.key_by(len).add_sink(Transactions()).name("transactions")


def upsert(stream):
    stream.sink_to(SqliteUpsertSink("a.db", "t", ["k", "v"])).name("table")


def committing(stream):
    stream.sink_to(Committing()).name("committing")


def writing(stream):
    stream.sink_to(Writing()).name("writing")


def printing(stream):
    stream.print()


def warned(job, caplog, sinks, source=Once, **options):
    env = job.environment(**options)
    stream = env.from_source(source.of_values(["a"]), None, "clicks")
    for add in sinks:
        add(stream)
    warn_of_lossy_sources(env.get_job_graph("words"))
    return caplog.messages


@pytest.mark.parametrize(
    ("add", "name"),
    [(file_sink, "files"), (two_phase, "transactions"), (upsert, "table"), (committing, "committing")],
)
def test_source_and_sink_are_named(job, caplog, add, name):
    [message] = warned(job, caplog, [add, printing])
    assert "source 'clicks' cannot be replayed" in message
    assert f"sink '{name}' writes all other records exactly once" in message


@pytest.mark.parametrize("add", [writing, printing])
def test_sink_that_promises_nothing_gives_no_warning(job, caplog, add):
    assert warned(job, caplog, [add]) == []


def test_source_that_can_be_replayed_gives_no_warning(job, caplog):
    assert warned(job, caplog, [file_sink], CollectionSource) == []


def test_job_without_checkpoints_gives_no_warning(job, caplog):
    assert warned(job, caplog, [file_sink], execution__checkpointing__interval_records=None) == []
