"""The local runtime with barriers that overtake, and with barriers that are only counted: whole jobs."""

from __future__ import annotations

import pytest

from onceproof.engine import Encoder, FileSink, Types
from onceproof.engine.checkpoint.metadata import decode_metadata
from onceproof.engine.protocol_points import COMPLETED
from onceproof.engine.runtime.job_result import JobExecutionFailed
from onceproof.engine.runtime.local import execute
from onceproof.engine.runtime.recovery import METADATA

UNALIGNED = {"execution__checkpointing__unaligned__enabled": True}
TIMED = {**UNALIGNED, "execution__checkpointing__aligned_checkpoint_timeout": "1 ms"}
COUNTED = {"execution__checkpointing__mode": "AT_LEAST_ONCE"}


@pytest.fixture
def backed_up(job):
    """A job whose sink gets two buffers where it reads one: its channels are never empty for long."""

    def describe(env, parallelism=2):
        env.set_parallelism(parallelism).set_max_parallelism(16)
        words = env.from_source(job.source, None, "words").set_parallelism(2)
        counted = words.key_by(lambda value: value[0], Types.STRING()).process(job.function()).name("count")
        sink = FileSink.for_row_format(str(job.output), Encoder.simple_string_encoder()).build()
        counted.rebalance().sink_to(sink).name("sink")

    job.describe = describe
    return job


@pytest.mark.parametrize("mode", [UNALIGNED, TIMED, COUNTED], ids=["unaligned", "timed", "counted"])
def test_a_job_without_a_failure_leaves_every_row_once(job, mode):
    execute(job.graph(**mode))
    assert job.rows() == job.counts


def in_flight(job):
    newest = max(job.directory.glob(f"chk-*/{METADATA}"))
    return decode_metadata(newest.read_bytes(), str(newest)).records_in_flight


@pytest.mark.parametrize("mode", [UNALIGNED, {}], ids=["unaligned", "aligned again"])
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_records_in_flight_come_back_at_any_parallelism_and_into_any_mode(backed_up, mode, parallelism):
    job = backed_up
    job.stopped(COMPLETED, **UNALIGNED)
    assert in_flight(job) > 0
    execute(job.graph(parallelism=parallelism, **mode))
    assert job.rows() == job.counts
    assert job.left_behind()[1] == []


def test_a_damaged_record_in_flight_ends_the_job_by_the_name_of_its_file(backed_up):
    job = backed_up
    job.stopped(COMPLETED, **UNALIGNED)
    for path in job.directory.glob("chk-*/*"):
        if path.name != METADATA:
            data = path.read_bytes()
            path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(JobExecutionFailed, match="damaged: its content does not match its checksum"):
        execute(job.graph(**UNALIGNED))
