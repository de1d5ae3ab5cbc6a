"""The specification of a job: sequences that are as they must be, and one wrong answer in each."""

from __future__ import annotations

import pytest

from onceproof.engine.checkpoint.events import (
    CheckpointCompleted,
    CheckpointExpired,
    DiscardHandle,
    DiscardSharedFiles,
    MetadataFailed,
    MetadataStored,
    RequestResolved,
    StartTimer,
    StoreMetadata,
    TooManyFailures,
    TriggerRequested,
)
from onceproof.engine.job.events import (
    CancelRequested,
    CancelTasks,
    Deploy,
    DeploymentFailed,
    JobCanceled,
    JobFailed,
    JobFinished,
    RescaleRequested,
    RestartDue,
    StartRestartTimer,
    StopRequested,
)
from onceproof.engine.messages import (
    SAVEPOINT,
    SYNC_SAVEPOINT,
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    Send,
    TaskFinished,
    TaskRunning,
)
from onceproof.harness.specifications.job import JobRules, JobSpecification
from onceproof.harness.specifications.restart_waits import ExponentialDelay, FixedDelay
from tests.harness.specifications.job_steps import (
    RULES,
    SINK,
    SOURCE,
    aborted,
    answered,
    begins,
    completed,
    failed,
    handle,
    metadata,
    notified,
    periodic,
    restarts,
    runs,
    triggered,
)

SAVED = [
    (TriggerRequested(SAVEPOINT, 1), triggered(1, SAVEPOINT, 1)),
    *answered(1, SAVEPOINT),
    (MetadataStored(1), [RequestResolved(1, 1)]),
]
STOPS = [
    (StopRequested(1, drains=True), triggered(1, SYNC_SAVEPOINT, 1, drains=True)),
    *answered(1, SYNC_SAVEPOINT),
    (MetadataStored(1), [*notified(1), RequestResolved(1, 1)]),
]
FINISHES = [
    (TaskFinished("1.1", SOURCE), []),
    (TaskFinished("1.1", SINK), [JobFinished(stopped=True)]),
]
FINISHED_BEFORE_STORED = [
    periodic(1),
    *answered(1),
    (TaskFinished("1.1", SOURCE), []),
    (TaskFinished("1.1", SINK), []),
]
REFUSAL = RequestResolved(1, None, "not now")

GOOD = {
    "checkpoints, one after another": [
        periodic(1),
        *answered(1),
        completed(1),
        periodic(2),
        *answered(2),
        completed(2, 1),
    ],
    "a savepoint": SAVED,
    "a stop": [*STOPS, *FINISHES],
    "a cancel with a savepoint": [
        (CancelRequested(1), triggered(1, SAVEPOINT, 1)),
        *answered(1, SAVEPOINT),
        (MetadataStored(1), [RequestResolved(1, 1), CancelTasks("1.1"), JobCanceled()]),
    ],
    "a cancel at once": [(CancelRequested(), [CancelTasks("1.1"), JobCanceled()])],
    "a refused savepoint": [(TaskFinished("1.1", SOURCE), []), (TriggerRequested(SAVEPOINT, 1), [REFUSAL])],
    "a decline": [
        periodic(1),
        (
            DeclineCheckpoint("1.1", SINK, 1, "CHECKPOINT_DECLINED_SUBSUMED"),
            aborted(1, "CHECKPOINT_DECLINED_SUBSUMED"),
        ),
    ],
    "an expiry that fails the job": [
        periodic(1),
        (
            CheckpointExpired("1.1", 1),
            [TooManyFailures("1"), *aborted(1, "CHECKPOINT_EXPIRED"), *restarts()],
        ),
    ],
    "a stop that is declined": [
        (StopRequested(1), triggered(1, SYNC_SAVEPOINT, 1)),
        (
            DeclineCheckpoint("1.1", SINK, 1, "no"),
            [TooManyFailures("1"), *aborted(1, "no", SYNC_SAVEPOINT), REFUSAL, *restarts()],
        ),
    ],
    "metadata that cannot be stored": [
        periodic(1),
        *answered(1),
        (MetadataFailed(1, "full"), [TooManyFailures("1"), *aborted(1, "full"), *restarts()]),
    ],
    "metadata that cannot be stored behind the end of all tasks": [
        *FINISHED_BEFORE_STORED,
        (
            MetadataFailed(1, "full"),
            [TooManyFailures("1"), *aborted(1, "full", heard_by=()), JobFinished()],
        ),
    ],
    "a restart from the latest checkpoint, and an end by the strategy": [
        periodic(1),
        *answered(1),
        completed(1),
        (failed(), restarts()),
        (failed(), []),
        (RestartDue("1.1"), [Deploy("1.2", metadata(1))]),
        *runs("1.2"),
        (failed("1.1"), []),
        (failed("1.2"), [CancelTasks("1.2"), JobFailed("it died")]),
    ],
    "a failure while metadata are written": [
        periodic(1),
        *answered(1),
        (failed(), [CancelTasks("1.1")]),
        (MetadataStored(1), [CheckpointCompleted(1), StartRestartTimer(10, RestartDue("1.1"))]),
        (RestartDue("1.1"), [Deploy("1.2", metadata(1))]),
    ],
    "a failure while the metadata of a stop are written": [
        *STOPS[:-1],
        (failed(), [CancelTasks("1.1")]),
        (MetadataStored(1), [RequestResolved(1, 1), StartRestartTimer(10, RestartDue("1.1"))]),
        (RestartDue("1.1"), [Deploy("1.2", metadata(1, SYNC_SAVEPOINT))]),
        *runs("1.2")[:-1],
        (TaskRunning("1.2", SINK), [CancelTasks("1.2"), JobFinished(stopped=True)]),
    ],
    "a failure while the metadata of a cancel are written": [
        (CancelRequested(1), triggered(1, SAVEPOINT, 1)),
        *answered(1, SAVEPOINT),
        (failed(), [CancelTasks("1.1")]),
        (MetadataStored(1), [RequestResolved(1, 1), CancelTasks("1.1"), JobCanceled()]),
    ],
    "a failure that no restart mends": [
        (failed(unrecoverable=True), [CancelTasks("1.1"), JobFailed("it died")])
    ],
    "a rescale, and one while metadata are written": [
        (RescaleRequested(), [CancelTasks("1.1"), Deploy("1.2", None)]),
        *runs("1.2"),
        periodic(1, "1.2"),
        *answered(1, attempt="1.2"),
        (RescaleRequested(), []),
    ],
    "a deployment that fails for good": [
        (RescaleRequested(), [CancelTasks("1.1"), Deploy("1.2", None)]),
        (DeploymentFailed("no"), [JobFailed("no")]),
    ],
    "an answer that comes too late": [
        (AcknowledgeCheckpoint("1.1", SINK, 7, handle("late"), False), [DiscardHandle(handle("late"))])
    ],
}


def judged(steps, rules=RULES, found=(), begin=None):
    specification = JobSpecification(rules, found)
    for event, effects in [*(begins() if begin is None else begin), *steps]:
        mismatch = specification.judge(event, 0, effects)
        if mismatch is not None:
            return mismatch
    return None


@pytest.mark.parametrize("name", GOOD)
def test_sequence_that_is_as_it_must_be_passes(name):
    assert judged(GOOD[name]) is None


def without(steps, kind, place=-1):
    """Return the steps, the one at ``place`` without its effects of a kind."""
    event, effects = steps[place]
    left = [each for each in effects if type(each) is not kind]
    assert left != effects
    return [*steps[:place], (event, left), *steps[len(steps) + place + 1 :]]


ONE = [periodic(1), *answered(1)]
BAD = {
    "a savepoint is not answered": (without(SAVED, RequestResolved), "an answer to request 1"),
    "a savepoint is answered twice": (
        [*SAVED, (MetadataStored(1), [RequestResolved(1, 1)])],
        "all have answered",
    ),
    "a savepoint is answered before it is complete": (
        [*SAVED[:2], (AcknowledgeCheckpoint("1.1", SINK, 1, None, False), [RequestResolved(1, 1)])],
        "the savepoint that was asked for, complete",
    ),
    "a savepoint notifies the tasks": (
        [*SAVED[:-1], (MetadataStored(1), [*notified(1), RequestResolved(1, 1)])],
        "notice",
    ),
    "a savepoint is refused without a reason": (
        [(TriggerRequested(SAVEPOINT, 1), [RequestResolved(1, None, "no")])],
        "a savepoint for request 1",
    ),
    "a refusal triggers something": (
        [(TaskFinished("1.1", SOURCE), []), (TriggerRequested(SAVEPOINT, 1), [REFUSAL, CancelTasks("1.1")])],
        "changes nothing",
    ),
    "a second stop is taken": (
        [*STOPS[:1], (StopRequested(2), triggered(2, SYNC_SAVEPOINT, 2))],
        "a refusal of request 2",
    ),
    "a stopped job ends as if its input had": (
        [*STOPS, FINISHES[0], (TaskFinished("1.1", SINK), [JobFinished()])],
        "stopped=True",
    ),
    "a stopped job goes on": ([*STOPS, FINISHES[0], (TaskFinished("1.1", SINK), [])], "the end of a job"),
    "a stop does not drain": (
        [(StopRequested(1, drains=True), triggered(1, SYNC_SAVEPOINT, 1))],
        "drains=True",
    ),
    "a stop begins another checkpoint": ([*STOPS, periodic(2)], "no other checkpoint while the job ends"),
    "a stopped job is restored from elsewhere": (
        [*STOPS, (failed(), restarts()), (RestartDue("1.1"), [Deploy("1.2", None)])],
        "an attempt from checkpoint",
    ),
    "a cancelled job goes on": (
        [*GOOD["a cancel with a savepoint"][:-1], (MetadataStored(1), [RequestResolved(1, 1)])],
        None,
    ),
    "a cancelled job that failed meanwhile restarts": (
        [
            *GOOD["a failure while the metadata of a cancel are written"][:-1],
            (MetadataStored(1), [RequestResolved(1, 1), StartRestartTimer(10, RestartDue("1.1"))]),
        ],
        "JobCanceled",
    ),
    "a rescale does nothing": ([(RescaleRequested(), [])], "a new attempt"),
    "a rescale does not wait": (
        [*ONE, (RescaleRequested(), [CancelTasks("1.1"), Deploy("1.2", None)])],
        "no attempt while a checkpoint is under way",
    ),
    "a checkpoint begins before all run": ([periodic(1)], "before all tasks run"),
    "two checkpoints at a time": ([periodic(1), periodic(2)], "at most 1 under way"),
    "an id is used again": ([*ONE, completed(1), periodic(1)], "an id above 1"),
    "a source is not triggered": ([without([periodic(1)], Send)[0]], "triggers to 0-0"),
    "a checkpoint does not expire": ([without([periodic(1)], StartTimer)[0]], "an expiry at 100"),
    "metadata are stored too early": (
        [periodic(1), (AcknowledgeCheckpoint("1.1", SINK, 1, None, False), [StoreMetadata(metadata(1))])],
        "once all have answered",
    ),
    "metadata are not stored": ([*ONE[:2], (ONE[2][0], [])], "the metadata of a checkpoint"),
    "metadata list another answer": (
        [*ONE[:2], (ONE[2][0], [StoreMetadata(metadata(1, path="other"))])],
        "the answers",
    ),
    "a completion is not heard of": ([*ONE, without([completed(1)], Send)[0]], "notices of checkpoint 1"),
    "an old checkpoint stays": (
        [*ONE, completed(1), periodic(2), *answered(2), completed(2)],
        "no longer retained",
    ),
    "the latest checkpoint is deleted": ([*ONE, completed(1, 1)], "no deletion of a checkpoint that is kept"),
    "a declined checkpoint goes on": (
        [periodic(1), (DeclineCheckpoint("1.1", SINK, 1, "no"), [])],
        "the end of checkpoint 1",
    ),
    "an abort is not heard of": (
        [periodic(1), (CheckpointExpired("1.1", 1), aborted(1, "CHECKPOINT_EXPIRED", heard_by=(SINK,)))],
        "notices of the abort",
    ),
    "a checkpoint is aborted for nothing": (
        [periodic(1), (TaskRunning("1.1", SINK), aborted(1, "x"))],
        "without a cause",
    ),
    "an open outcome is aborted": (
        [*ONE, (failed(), [CancelTasks("1.1"), *aborted(1, "x", heard_by=())])],
        "the outcome of metadata",
    ),
    "failed checkpoints are not counted": (
        [periodic(1), (CheckpointExpired("1.1", 1), aborted(1, "CHECKPOINT_EXPIRED"))],
        "too many failures: True",
    ),
    "a decline without a failure is counted": (
        [
            periodic(1),
            (
                DeclineCheckpoint("1.1", SINK, 1, "CHECKPOINT_DECLINED_SUBSUMED"),
                [TooManyFailures("1"), *aborted(1, "CHECKPOINT_DECLINED_SUBSUMED"), *restarts()],
            ),
        ],
        "too many failures: False",
    ),
    "a failure is ignored": ([(failed(), [])], "the end of an attempt that failed"),
    "a restart comes too late": ([(failed(), restarts(wait_ms=11))], "a restart between 10 and 10"),
    "a job restarts once too often": (
        [
            (failed(), restarts()),
            (RestartDue("1.1"), [Deploy("1.2", None)]),
            *runs("1.2"),
            (failed("1.2"), restarts("1.2")),
        ],
        "the failure of the job",
    ),
    "a job fails too early": ([(failed(), [CancelTasks("1.1"), JobFailed("it died")])], "a restart between"),
    "an attempt begins while an outcome is open": (
        [*ONE, (failed(), restarts())],
        "no attempt while an outcome",
    ),
    "an attempt has the name of another": (
        [(failed(), restarts()), (RestartDue("1.1"), [Deploy("1.1", None)])],
        "a name of its own",
    ),
    "a restart is forgotten": ([(failed(), restarts()), (RestartDue("1.1"), [])], "the next attempt"),
    "an attempt ends for nothing": ([(TaskRunning("1.1", SINK), restarts())], "without a failure"),
    "a job finishes before its tasks": (
        [(TaskFinished("1.1", SINK), [JobFinished()])],
        "before that of all tasks",
    ),
    "a job restarts behind the end of all tasks": (
        [
            *FINISHED_BEFORE_STORED,
            (
                MetadataFailed(1, "full"),
                [TooManyFailures("1"), *aborted(1, "full", heard_by=()), *restarts()],
            ),
        ],
        "no end of an attempt without a failure",
    ),
    "state that is used is deleted": (
        [
            *ONE,
            completed(1),
            (AcknowledgeCheckpoint("1.1", SOURCE, 1, handle("x"), False), [DiscardHandle(handle("x"))]),
        ],
        "no deletion of state that may be used",
    ),
    "late state stays": (
        [(AcknowledgeCheckpoint("1.1", SINK, 7, handle("late"), False), [])],
        "the deletion of state that came too late",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_one_wrong_answer_is_named(name):
    steps, expected = BAD[name]
    begin = begins()[:2] if name == "a checkpoint begins before all run" else None
    if expected is None:
        steps, expected = [*steps, periodic(2)], "no other checkpoint"
    mismatch = judged(steps, begin=begin)
    assert mismatch is not None
    assert expected in mismatch.expected


def test_savepoint_waits_for_its_turn_where_barriers_overtake():
    rules = JobRules(FixedDelay(1, 10), 100, forces_savepoints=False)
    waits = [periodic(1), (TriggerRequested(SAVEPOINT, 1), [])]
    assert judged(waits, rules) is None
    assert judged(waits) is not None
    assert judged([(TriggerRequested(SAVEPOINT, 1), [])], rules) is not None


def test_periodic_checkpoint_waits_for_the_pause_and_a_savepoint_does_not():
    rules = JobRules(FixedDelay(1, 10), 100, min_pause_ms=5)
    assert "before 5 ms" in judged([*ONE, completed(1), periodic(2)], rules).expected
    assert (
        judged([*ONE, completed(1), (TriggerRequested(SAVEPOINT, 1), triggered(2, SAVEPOINT, 1))], rules)
        is None
    )


def test_batch_job_refuses_every_savepoint():
    rules = JobRules(FixedDelay(1, 10), 100, is_batch=True)
    assert judged([(TriggerRequested(SAVEPOINT, 1), [REFUSAL])], rules) is None
    assert judged([(TriggerRequested(SAVEPOINT, 1), triggered(1, SAVEPOINT, 1))], rules) is not None


def test_process_goes_on_from_what_it_has_found():
    found = [metadata(3, attempt="0.1"), metadata(4, attempt="0.1")]
    assert judged([], found=found, begin=begins(restored=found[1])) is None
    assert judged([], found=found, begin=begins(restored=found[0])) is not None
    assert judged([], found=found, begin=begins()) is not None


def test_restart_that_waits_for_metadata_counts_from_when_it_was_planned():
    rules = JobRules(ExponentialDelay(1, 1, 1.0, quiet_ms=100, attempts=1), timeout_ms=100)
    specification = JobSpecification(rules, ())
    ends = (MetadataStored(1), [CheckpointCompleted(1), StartRestartTimer(50, RestartDue("1.1"))])
    steps = [
        *[(0, step) for step in (*begins(), *ONE)],
        (10, (failed(), [CancelTasks("1.1")])),
        (50, ends),
        (50, (RestartDue("1.1"), [Deploy("1.2", metadata(1))])),
        *[(50, step) for step in runs("1.2")],
        # Quiet for 100 ms since the restart was due, which was at 11.
        (111, (failed("1.2"), restarts("1.2", now=111, wait_ms=1))),
    ]
    assert [specification.judge(event, now, effects) for now, (event, effects) in steps] == [None] * len(
        steps
    )


def test_error_that_repeats_ends_the_job_at_its_limit():
    rules = JobRules(FixedDelay(9, 10), 100, max_equal_errors=2)
    again = [(RestartDue("1.1"), [Deploy("1.2", None)]), *runs("1.2")]
    first = (failed(error="ValueError", taken=3), restarts())
    last = failed("1.2", error="ValueError", taken=3)
    assert judged([first, *again, (last, [CancelTasks("1.2"), JobFailed("x")])], rules) is None
    assert judged([first, *again, (last, restarts("1.2"))], rules) is not None


def test_deleted_shared_file_that_is_used_is_named():
    specification = JobSpecification(RULES)
    for event, effects in [*begins(), *ONE, completed(1)]:
        assert specification.judge(event, 0, effects) is None
    kept = specification.retention.kept[0]
    specification.retention.kept[0] = kept._replace(files=frozenset({"shared/x"}))
    mismatch = specification.judge(TaskRunning("1.1", SINK), 0, [DiscardSharedFiles(("shared/x",))])
    assert mismatch == ("no deletion of shared files that are used", "['shared/x']")
