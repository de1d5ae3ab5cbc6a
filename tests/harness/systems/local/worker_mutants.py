"""Bugs planted into the local runtime's workers and into what only they can meet."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from time import monotonic, sleep

from onceproof.engine.checkpoint.events import CheckpointTriggered
from onceproof.engine.elements import CheckpointBarrier
from onceproof.engine.runtime.job_requests import OpenRequests
from onceproof.engine.runtime.workers import launcher
from onceproof.engine.runtime.workers.channels import OutgoingChannel
from onceproof.engine.runtime.workers.worker_coordinator import WorkerHandle, WorkersExecution
from onceproof.engine.runtime.workers.worker_tasks import Worker
from onceproof.engine.task.events import StoreSnapshot
from onceproof.engine.task.task import Task
from onceproof.harness.model.mutants import Reached, mutant, replaced

LINGERING_SECONDS = 60.0
SENDS_LATE_SECONDS = 0.005


@mutant(
    id="snapshot-before-the-place-of-its-savepoint",
    breaks="no_leaks",
    summary="a worker stores the snapshot of a savepoint before it knows where the savepoint lies",
)
def snapshot_before_the_place_of_its_savepoint(reached: Reached) -> Iterator[None]:
    """The barrier has come from another worker; the file lands in the folder of the job."""
    store = Worker._store_snapshot

    def hastily(self: Worker, task: Task, effect: StoreSnapshot) -> None:
        store(self, task, effect)
        for waiting in self._unplaced.values():
            for work in waiting:
                reached()
                self._writer.submit(work)
        self._unplaced.clear()

    with replaced(Worker, "_store_snapshot", hastily):
        yield


@mutant(
    id="second-try-in-the-folder-of-the-first",
    breaks="no_leaks",
    summary="a savepoint that is tried again writes into the folder of its first try",
)
def second_try_in_the_folder_of_the_first(reached: Reached) -> Iterator[None]:
    """Tasks delete what they have stored for the first try, under the names of the second one's files."""
    begun = OpenRequests.begun

    def in_one_folder(self: OpenRequests, effect: CheckpointTriggered) -> tuple[str, str] | None:
        asked = self._open.get(effect.number)
        if asked is not None and asked.has_begun:
            reached()
            asked.has_begun = False
        return begun(self, effect)

    with replaced(OpenRequests, "begun", in_one_folder):
        yield


@mutant(
    id="barriers-pass-records",
    breaks="exactly_once",
    summary="a barrier for another worker passes the records that wait to be sent",
)
def barriers_pass_records(reached: Reached) -> Iterator[None]:
    """The records behind it are in no snapshot, and the source has moved on.

    A quick receiver leaves nothing to wait, so the sender sends each buffer a little late.
    """
    transfer = OutgoingChannel.transfer
    waiting_since: dict[int, float] = {}

    def hastily(self: OutgoingChannel) -> None:
        queue = self.queue
        barrier = next((each for each in queue if type(each) is CheckpointBarrier), None)
        if barrier is not None and self._pushed_to is None and queue[0] is not barrier:
            reached()
            queue.remove(barrier)
            queue.appendleft(barrier)
        elif queue and type(queue[0]) is list:
            now = monotonic()
            if now - waiting_since.setdefault(id(self), now) < SENDS_LATE_SECONDS:
                return
        waiting_since.pop(id(self), None)
        transfer(self)

    with replaced(OutgoingChannel, "transfer", hastily):
        yield


@mutant(
    id="deaths-of-workers-go-unnoticed",
    breaks="liveness",
    summary="the coordinator takes the closed connection of a worker that has died for one that is idle",
)
def deaths_of_workers_go_unnoticed(reached: Reached) -> Iterator[None]:
    """The attempt waits for its tasks for ever."""
    heard = WorkersExecution._heard

    def deaf(self: WorkersExecution, handle: WorkerHandle, message: object) -> None:
        if message is None and not handle.is_ending:
            reached()
            return
        heard(self, handle, message)

    with replaced(WorkersExecution, "_heard", deaf):
        yield


@mutant(
    id="worker-ends-at-a-barrier",
    breaks="no_error",
    summary="a worker ends without a word as it takes its first snapshot",
)
def worker_ends_at_a_barrier(reached: Reached) -> Iterator[None]:
    """As one that runs out of memory or that native code tears down."""

    def ending(self: Worker, task: Task, effect: StoreSnapshot) -> None:
        reached()
        os._exit(3)

    with replaced(Worker, "_store_snapshot", ending):
        yield


@mutant(
    id="workers-outlive-their-coordinator",
    breaks="no_leaks",
    summary="a process of the job lives on when the coordinator is dead",
)
def workers_outlive_their_coordinator(reached: Reached) -> Iterator[None]:
    """The process that forks them lives on, too late for the next coordinator."""
    serve = launcher._serve

    def lingering(commands: socket.socket, workers: int, live: Callable[[launcher.Ends], None]) -> None:
        serve(commands, workers, live)
        reached()
        sleep(LINGERING_SECONDS)

    with replaced(launcher, "_serve", lingering):
        yield
