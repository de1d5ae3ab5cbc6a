"""Events of a job and the effects that are to follow, for tests of its specification."""

from __future__ import annotations

from onceproof.engine.checkpoint.events import (
    CheckpointAborted,
    CheckpointCompleted,
    CheckpointExpired,
    CheckpointPlan,
    CheckpointTriggered,
    DiscardCheckpoint,
    IntervalElapsed,
    MetadataStored,
    StartTimer,
    StoreMetadata,
)
from onceproof.engine.checkpoint.metadata import (
    CheckpointMetadata,
    OperatorMetadata,
    StateHandle,
    SubtaskState,
)
from onceproof.engine.graph import JobVertex, OperatorNode
from onceproof.engine.job.events import (
    AttemptDeployed,
    CancelTasks,
    Deploy,
    RestartDue,
    StartJob,
    StartRestartTimer,
)
from onceproof.engine.messages import (
    CHECKPOINT,
    AcknowledgeCheckpoint,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    Send,
    TaskFailed,
    TaskId,
    TaskRunning,
    TriggerCheckpoint,
)
from onceproof.engine.operators.base import Operator
from onceproof.harness.specifications.job import JobRules
from onceproof.harness.specifications.restart_waits import FixedDelay

SOURCE, SINK = TaskId(0, 0), TaskId(1, 0)
UPSTREAMS = {SOURCE: (), SINK: (SOURCE,)}
RULES = JobRules(FixedDelay(1, 10), timeout_ms=100)


def vertex(index, name):
    return JobVertex(index, name, (OperatorNode(name, name, name, Operator),), 1, 8, False, (), ())


def handle(path):
    return StateHandle(path, 1, "", {})


def metadata(checkpoint_id, kind=CHECKPOINT, attempt="1.1", path=None):
    def operator(name, its_path):
        state = SubtaskState(None if its_path is None else handle(its_path), False)
        return OperatorMetadata(name, name, name, 1, 8, (state,))

    operators = (operator("source", path or f"{kind}-{checkpoint_id}/s"), operator("sink", None))
    return CheckpointMetadata(checkpoint_id, "job", "job", 0, kind, attempt, operators)


def plan(attempt):
    return CheckpointPlan(attempt, (vertex(0, "source"), vertex(1, "sink")), UPSTREAMS)


def begins(attempt="1.1", restored=None):
    return [
        (StartJob(), [Deploy(attempt, restored)]),
        *runs(attempt),
    ]


def runs(attempt):
    return [
        (AttemptDeployed(plan(attempt)), [StartTimer(50, IntervalElapsed(attempt))]),
        (TaskRunning(attempt, SOURCE), []),
        (TaskRunning(attempt, SINK), []),
    ]


def triggered(checkpoint_id, kind=CHECKPOINT, number=0, attempt="1.1", drains=False, now=0):
    return [
        CheckpointTriggered(checkpoint_id, kind, number),
        StartTimer(now + 100, CheckpointExpired(attempt, checkpoint_id)),
        Send(TriggerCheckpoint(attempt, SOURCE, checkpoint_id, now, kind, drains)),
    ]


def periodic(checkpoint_id, attempt="1.1"):
    timer = StartTimer(100, IntervalElapsed(attempt))
    return (IntervalElapsed(attempt), [timer, *triggered(checkpoint_id, attempt=attempt)])


def answered(checkpoint_id, kind=CHECKPOINT, attempt="1.1"):
    source = handle(f"{kind}-{checkpoint_id}/s")
    return [
        (AcknowledgeCheckpoint(attempt, SOURCE, checkpoint_id, source, False), []),
        (
            AcknowledgeCheckpoint(attempt, SINK, checkpoint_id, None, False),
            [StoreMetadata(metadata(checkpoint_id, kind, attempt))],
        ),
    ]


def notified(checkpoint_id, attempt="1.1"):
    return [Send(NotifyCheckpointComplete(attempt, task, checkpoint_id)) for task in (SOURCE, SINK)]


def completed(checkpoint_id, *subsumed):
    dropped = [DiscardCheckpoint(each) for each in subsumed]
    effects = [CheckpointCompleted(checkpoint_id), *dropped, *notified(checkpoint_id)]
    return (MetadataStored(checkpoint_id), effects)


def aborted(checkpoint_id, reason, kind=CHECKPOINT, attempt="1.1", heard_by=(SOURCE, SINK)):
    return [
        CheckpointAborted(checkpoint_id, reason),
        *[Send(NotifyCheckpointAborted(attempt, task, checkpoint_id)) for task in heard_by],
        DiscardCheckpoint(checkpoint_id, kind),
    ]


def failed(attempt="1.1", task=SINK, **how):
    return TaskFailed(attempt, task, "it died", **how)


def restarts(attempt="1.1", *others, now=0, wait_ms=10):
    return [CancelTasks(attempt), *others, StartRestartTimer(now + wait_ms, RestartDue(attempt))]
