"""Recorded jobs have the rows on the engine that they had on Flink."""

from onceproof.engine.runtime.job_result import JobExecutionFailed
from tests.conformance.recorded_jobs import departure


def test_job_has_the_rows_that_it_had_on_flink(job, recorded_differences, record_property):
    try:
        rows = job.run()
    except JobExecutionFailed as error:
        reason = departure(job, str(error))
        if reason is None:
            raise
        assert reason in recorded_differences, f"engine/docs/flink.md does not give the reason: {reason}"
        record_property("departs", job.id)
        return
    streams = sorted(rows.keys() | job.flink.keys())
    expected = {name: job.comparable(name, job.flink.get(name, [])) for name in streams}
    assert {name: job.comparable(name, rows.get(name, [])) for name in streams} == expected
