"""Recorded jobs have the rows on the engine that they had on Flink."""

from onceproof.engine.runtime.job_result import JobExecutionFailed
from tests.conformance.recorded_jobs import WINDOW_TIMES, departure, window_times_of_pyflink


def test_job_has_the_rows_that_it_had_on_flink(job, recorded_differences, record_property):
    reason = None
    try:
        differs = job.differences(job.run())
    except JobExecutionFailed as error:
        reason = departure(job, str(error))
        if reason is None:
            raise
    else:
        if differs:
            with window_times_of_pyflink():
                follows_from_times = not job.differences(job.run())
            assert follows_from_times, differs
            reason = WINDOW_TIMES
    if reason is not None:
        assert reason in recorded_differences, f"engine/docs/flink.md does not give the reason: {reason}"
        record_property("departs", job.id)
