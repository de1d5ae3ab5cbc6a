"""Mutants of jobs that report success, and have not read their input or not committed their output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Final

from onceproof.engine.connectors.file_content import ChangedFile, CheckedReader, Content, Mark
from onceproof.engine.connectors.two_phase import TwoPhaseCommitSinkFunction
from onceproof.engine.messages import NotifyCheckpointComplete
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.runtime import interrupts
from onceproof.engine.runtime.execution import Execution
from onceproof.engine.task.events import TaskEffect, TaskEvent
from onceproof.engine.task.task import Task
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import SMALL_JOBS, Reached, mutant

CHANGING_INPUTS: Final = ("word_count", "final_table", "steady_batches")
"""Families whose input is drawn to change: what they expect follows from their records alone."""


@mutant(
    id="exit-of-a-function-ends-the-process",
    breaks="completeness",
    summary="sys.exit() in a function is no failure of its task: the process ends with exit code 0",
)
def exit_of_a_function_ends_the_process(reached: Reached) -> Iterator[None]:
    """It leaves through the driver, as what is no Exception does where only those are caught.

    What looks at the exit of a whole run is left out as well.
    """
    sound = Execution.task_event
    handle = Task.handle
    left: list[SystemExit] = []

    def noted(self: Task, event: TaskEvent, now: int) -> Sequence[TaskEffect]:
        try:
            return handle(self, event, now)
        except SystemExit as error:
            left.append(error)
            raise

    def open_to_exits(self: Execution, task: Task, event: TaskEvent) -> None:
        left.clear()
        sound(self, task, event)
        if left:
            reached()
            raise left.pop()

    with (
        replaced(Task, "handle", noted),
        replaced(Execution, "task_event", open_to_exits),
        replaced(interrupts, "no_success_before_the_end", nullcontext),
    ):
        yield


@mutant(
    id="record-at-which-a-function-left-is-done",
    breaks="exactly_once",
    summary="a task that hears StopIteration or GeneratorExit from a function goes on with its next record",
)
def record_at_which_a_function_left_is_done(reached: Reached) -> Iterator[None]:
    """They end a generator without an error, and are taken for the end of what the function returns."""
    sound = Task.handle

    def patient(self: Task, event: TaskEvent, now: int) -> Sequence[TaskEffect]:
        try:
            return sound(self, event, now)
        except (StopIteration, GeneratorExit):
            reached()
            return ()

    with replaced(Task, "handle", patient):
        yield


@mutant(
    id="split-that-ends-ends-the-others",
    breaks="completeness",
    summary="a source with several splits has read everything when one of them is at its end",
)
def split_that_ends_ends_the_others(reached: Reached) -> Iterator[None]:
    """The job finishes, and says so."""
    sound = SourceOperator._count_unfinished

    def hasty(self: SourceOperator) -> int:
        unfinished = sound(self)
        if 0 < unfinished < len(self.positions()):
            reached()
            return 0
        return unfinished

    with replaced(SourceOperator, "_count_unfinished", hasty):
        yield


@mutant(
    id="job-finishes-before-its-last-commit",
    breaks="completeness",
    summary="a task finishes when its final checkpoint is complete, and commits nothing of it",
    families=SMALL_JOBS,
)
def job_finishes_before_its_last_commit(reached: Reached) -> Iterator[None]:
    """Nothing restores that checkpoint any more once the job has finished."""
    completed, notified = Task.checkpoint_completed, TwoPhaseCommitSinkFunction.notify_checkpoint_complete
    finishing: list[bool] = []

    def finishes(self: Task, message: NotifyCheckpointComplete) -> Sequence[TaskEffect]:
        final = self._first_final_checkpoint_id
        finishing.append(final is not None and message.checkpoint_id >= final)
        try:
            return completed(self, message)
        finally:
            finishing.pop()

    def unheard(self: TwoPhaseCommitSinkFunction, checkpoint_id: int) -> None:
        if any(finishing):
            reached()
            return
        notified(self, checkpoint_id)

    with (
        replaced(Task, "checkpoint_completed", finishes),
        replaced(TwoPhaseCommitSinkFunction, "notify_checkpoint_complete", unheard),
    ):
        yield


@mutant(
    id="file-that-has-changed-is-at-its-end",
    breaks="completeness",
    summary="a reader that finds another file than it has read takes it for the end of its split",
    families=CHANGING_INPUTS,
)
def file_that_has_changed_is_at_its_end(reached: Reached) -> Iterator[None]:
    """The rest of the file is left out without a word, and the job finishes."""

    def ended(self: CheckedReader, change: ChangedFile) -> bool:
        reached()
        return False

    with replaced(CheckedReader, "begins_again", ended):
        yield


@mutant(
    id="content-of-a-file-is-not-compared",
    breaks="exactly_once",
    summary="a restored reader goes on at its offset, whatever the file has before it",
    families=CHANGING_INPUTS,
)
def content_of_a_file_is_not_compared(reached: Reached) -> Iterator[None]:
    """Rows of two files are mixed."""
    sound = Content.check

    def trusting(self: Content, mark: Mark) -> bytes:
        try:
            return sound(self, mark)
        except ChangedFile:
            reached()
            end, _, _, length, _ = mark
            return self.bytes_at(end - length, length)

    with replaced(Content, "check", trusting):
        yield
