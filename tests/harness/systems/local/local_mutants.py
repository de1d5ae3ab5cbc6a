"""Bugs planted into code that runs only in real processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from threading import Event, Thread
from time import sleep

from onceproof.engine.connectors.file_sink_function import FileSinkFunction
from onceproof.engine.connectors.part_files import Mark, PartFile, PartFileWriter, Transaction, parts_of
from onceproof.engine.graph import JobGraph
from onceproof.engine.job.channel_layout import Layout
from onceproof.engine.job.events import CancelTasks
from onceproof.engine.messages import AttemptId
from onceproof.engine.runtime.checkpoint_writer import CheckpointWriter, Work
from onceproof.engine.runtime.local import LocalExecution, Upload
from onceproof.engine.runtime.storage import LocalCheckpointStorage
from onceproof.engine.task.task import Task
from onceproof.harness.model.mutants import Reached, mutant, replaced

SLOW_WRITE_SECONDS = 0.15


@mutant(
    id="pending-sought-in-the-new-folder",
    breaks="no_error",
    summary="a file sink looks for the files that a checkpoint lists in the folder where it writes now",
)
def pending_sought_in_the_new_folder(reached: Reached) -> Iterator[None]:
    """They were prepared by a process that wrote into another folder, and are taken for lost."""
    listed = FileSinkFunction._listed

    def only_here(self: FileSinkFunction, transaction: Transaction) -> tuple[PartFile, list[str]]:
        part, folders = listed(self, transaction)
        if len(folders) > 1:
            reached()
        return part, folders[-1:]

    with replaced(FileSinkFunction, "_listed", only_here):
        yield


@mutant(
    id="timers-of-dead-attempts-stay",
    breaks="no_leaks",
    summary="the timers of a dead attempt stay registered until they are due, and hold its tasks in memory",
)
def timers_of_dead_attempts_stay(reached: Reached) -> Iterator[None]:
    """Where timers are far ahead, each restart leaves a whole attempt with its state in memory."""
    cancel = LocalExecution.cancel_tasks

    def keeping(self: LocalExecution, effect: CancelTasks) -> None:
        timers = self._timers
        cancel(self, effect)
        if len(timers) > len(self._timers):
            reached()
        self._timers = timers

    with replaced(LocalExecution, "cancel_tasks", keeping):
        yield


@mutant(
    id="void-snapshots-wait-on",
    breaks="no_leaks",
    summary="snapshots of aborted and expired checkpoints go on waiting to be stored",
)
def void_snapshots_wait_on(reached: Reached) -> Iterator[None]:
    """Where the storage is slow they pile up, and each waits for all that no checkpoint needs."""

    def keeping(self: CheckpointWriter, is_void: Callable[[Upload | None], bool]) -> list[Work]:
        if any(is_void(work.about) for work in tuple(self.waiting)):
            reached()
        return []

    write = LocalCheckpointStorage.write

    def slowly(self: LocalCheckpointStorage, path: str, data: bytes) -> None:
        sleep(SLOW_WRITE_SECONDS)
        write(self, path, data)

    with (
        replaced(CheckpointWriter, "withdraw", keeping),
        replaced(LocalCheckpointStorage, "write", slowly),
    ):
        yield


@mutant(
    id="dead-tasks-are-remembered",
    breaks="no_leaks",
    summary="a list for diagnosis keeps each task that was cancelled",
)
def dead_tasks_are_remembered(reached: Reached) -> Iterator[None]:
    """It has no end: state, databases and buffers of each attempt stay with it."""
    cancel = LocalExecution.cancel
    remembered: list[Task] = []

    def remembering(self: LocalExecution, task: Task) -> None:
        reached()
        remembered.append(task)
        cancel(self, task)

    with replaced(LocalExecution, "cancel", remembering):
        yield


@mutant(
    id="each-attempt-has-a-thread",
    breaks="no_leaks",
    summary="the thread of an attempt waits for work after the attempt is dead",
)
def each_attempt_has_a_thread(reached: Reached) -> Iterator[None]:
    """Each restart leaves one more, and nothing ends it."""
    make_tasks = LocalExecution.make_tasks

    def threading_too(self: LocalExecution, attempt: AttemptId, graph: JobGraph, layout: Layout) -> None:
        reached()
        Thread(target=Event().wait, name=f"helper of {attempt}", daemon=True).start()
        make_tasks(self, attempt, graph, layout)

    with replaced(LocalExecution, "make_tasks", threading_too):
        yield


@mutant(
    id="dead-sinks-keep-their-files-open",
    breaks="no_leaks",
    summary="a file sink that is closed without a commit does not close its file",
)
def dead_sinks_keep_their_files_open(reached: Reached) -> Iterator[None]:
    """Each restart leaves a descriptor, until the process has none left."""

    def leaving(self: PartFileWriter) -> None:
        if self._descriptor >= 0:
            reached()
            self._descriptor = -1

    finish = PartFileWriter.finish
    close = PartFileWriter.close

    def finishing(self: PartFileWriter) -> int:
        with replaced(PartFileWriter, "close", close):
            return finish(self)

    with replaced(PartFileWriter, "close", leaving), replaced(PartFileWriter, "finish", finishing):
        yield


@mutant(
    id="buckets-are-not-swept",
    breaks="no_leaks",
    summary="a file sink with buckets looks for what dead attempts left in its base path only",
)
def buckets_are_not_swept(reached: Reached) -> Iterator[None]:
    """Hidden files stay in the folders below for ever."""
    hidden_files = FileSinkFunction._hidden_files

    def in_base_path(self: FileSinkFunction, folder: str) -> Iterator[tuple[str, Mark]]:
        for path, mark in hidden_files(self, folder):
            if os.path.dirname(path) == folder:
                yield path, mark
            else:
                reached()

    with replaced(FileSinkFunction, "_hidden_files", in_base_path):
        yield


@mutant(
    id="only-the-first-file-is-committed",
    breaks="exactly_once",
    summary="of a transaction of several files only the first with rows becomes visible",
)
def only_the_first_file_is_committed(reached: Reached) -> Iterator[None]:
    """The rows of the other buckets, and those behind a roll, stay hidden."""

    def first_only(self: FileSinkFunction, transaction: Transaction) -> None:
        parts = [part for part in parts_of(transaction) if part[1]]
        if len(parts) > 1:
            reached()
        for part in parts[:1]:
            self.commit_part(part)

    with replaced(FileSinkFunction, "commit", first_only):
        yield
