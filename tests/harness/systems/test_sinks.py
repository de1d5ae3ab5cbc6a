"""Batches that a target refuses: whether they are put off, or fail the job by the error of the fault."""

from __future__ import annotations

import pytest

from onceproof.engine.connectors.two_phase import CommitFailed
from onceproof.engine.connectors.write_ahead import PendingBatch
from onceproof.harness.model.injected_error import InjectedError, is_injected
from onceproof.harness.systems.sinks import BatchSink
from tests.engine.connectors.conftest import SinkJob


class NoBatches:
    """Remembers no batch, since it never takes one."""

    def remember_batch(self, sink: str, subtask: int, checkpoint_id: int) -> None:
        raise AssertionError

    def remembers_batch(self, sink: str, subtask: int, checkpoint_id: int) -> bool:
        return False


class RefusedSink(BatchSink):
    """A sink whose target refuses each batch."""

    def __init__(self) -> None:
        super().__init__(NoBatches())

    def take(self, batch: PendingBatch) -> None:
        raise InjectedError("refused")

    def name_of(self, batch: PendingBatch) -> str:
        return str(batch.place)


@pytest.fixture
def job() -> SinkJob:
    """A job that has put off its batch of an even checkpoint."""
    job = SinkJob(RefusedSink)
    job.start().invoke("a", None)
    job.snapshot(2)
    job.notify(2)
    return job


def test_refused_batch_of_an_even_checkpoint_is_put_off(job: SinkJob) -> None:
    assert len(job.functions[0].pending_batches()) == 1


def test_driver_fails_by_the_fault_that_refuses_a_batch(job: SinkJob) -> None:
    with pytest.raises(CommitFailed) as failed:
        job.settle(2)
    assert is_injected(failed.value)
