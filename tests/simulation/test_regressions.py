"""Every failure that was ever found and mended is run again; its file's name says what it was.

A regression that could not fail any more would guard nothing. Where the bug can be planted again, it is, and
the scenario has to see it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from onceproof.engine import KeyedProcessFunction
from onceproof.engine.checkpoint import coordinator
from onceproof.engine.checkpoint.failure_counter import FailureCounter
from onceproof.engine.checkpoint.metadata import CheckpointMetadata, OperatorMetadata
from onceproof.engine.checkpoint.shared_registry import SharedStateRegistry
from onceproof.engine.connectors.write_ahead import GenericWriteAheadSink
from onceproof.engine.elements import MIN_WATERMARK, CheckpointBarrier
from onceproof.engine.job import master
from onceproof.engine.job.master import JobMaster
from onceproof.engine.messages import CHECKPOINT, DECLINED_IN_BATCH, NotifyCheckpointAborted
from onceproof.engine.runtime import job_driver, job_startup
from onceproof.engine.runtime.job_registry import JobClaim
from onceproof.engine.runtime.recovery import discard_checkpoint
from onceproof.engine.state.rocksdb.backend import RocksDBStateBackend
from onceproof.engine.task import outputs
from onceproof.engine.task.barriers.aligned import AlignedBarrierHandler
from onceproof.engine.task.barriers.events import BarrierEffect, StartCheckpoint
from onceproof.engine.task.barriers.tracker import BarrierTracker
from onceproof.engine.task.barriers.unaligned import UnalignedBarrierHandler
from onceproof.engine.task.events import TaskEffect
from onceproof.engine.task.task import Task
from onceproof.engine.task.unaligned_task import UnalignedTask
from onceproof.harness.checkers.liveness import CIRCLE
from onceproof.harness.commands.replay import violation_lines
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import Event
from onceproof.harness.model.mutants import Mutant, Reached, mutant, replaced
from onceproof.harness.model.scenario import Scenario, read_scenario
from onceproof.harness.systems.simulation import actions, checkpoint_recorder, comparison_runs, user_requests
from onceproof.harness.systems.simulation.checkpoint_recorder import CheckpointRecorder
from onceproof.harness.systems.simulation.checkpoint_storages import LATE_DELETE, StorageOnDisk
from onceproof.harness.systems.simulation.retention_watch import RetentionWatch, needed_files
from onceproof.harness.systems.simulation.run_recorder import RunRecorder
from onceproof.harness.systems.simulation.simulated_storage import STORAGE_FAILED, SimulatedStorage
from onceproof.harness.systems.simulation.window_watch import WatchedWindows
from onceproof.harness.trials import checkpoint_trials
from onceproof.harness.trials.trial import try_scenario
from onceproof.scenarios.random_graphs._meeting_functions import TumblingByTimers, together
from tests.planted.catalogue import find_mutant

FOLDER = Path(__file__).parents[2] / "scenarios" / "regressions"
FILES = sorted(FOLDER.glob("*.json"))
LONGEST_SOUND_RUN = 4000
"""More steps than each of these scenarios takes."""


@mutant(id="close-forgets-the-channels", breaks="liveness", summary="a task that finishes stays blocked")
def close_forgets_the_channels(reached: Reached) -> Iterator[None]:
    # Without room for records where barriers are queued, as it was then.
    with (
        replaced(AlignedBarrierHandler, "close", lambda self: reached()),
        replaced(outputs, "_TAKE_NO_ROOM", frozenset()),
    ):
        yield


@mutant(id="barriers-take-room", breaks="liveness", summary="what is no record fills a channel, too")
def barriers_take_room(reached: Reached) -> Iterator[None]:
    class Nothing(frozenset[type]):
        def __contains__(self, kind: object) -> bool:
            if kind is CheckpointBarrier:
                reached()
            return False

    with replaced(outputs, "_TAKE_NO_ROOM", Nothing()):
        yield


@mutant(id="counted-in-any-order", breaks="mode", summary="a checkpoint begins behind a newer one")
def counted_in_any_order(reached: Reached) -> Iterator[None]:
    start = BarrierTracker._start

    def at_any_time(self: BarrierTracker, barrier: CheckpointBarrier) -> list[BarrierEffect]:
        effects = start(self, barrier)
        if not effects:
            reached()
        return [StartCheckpoint(barrier)]

    with replaced(BarrierTracker, "_start", at_any_time):
        yield


@mutant(id="empty-snapshots-forget", breaks="liveness", summary="files are known that no checkpoint has")
def empty_snapshots_forget(reached: Reached) -> Iterator[None]:
    complete = RocksDBStateBackend.notify_checkpoint_complete

    def only_of_files(self: RocksDBStateBackend, checkpoint_id: int) -> None:
        if self._snapshots.get(checkpoint_id) is None and self._stored_files:
            reached()
            self._snapshots.pop(checkpoint_id, None)
        complete(self, checkpoint_id)

    with replaced(RocksDBStateBackend, "notify_checkpoint_complete", only_of_files):
        yield


@mutant(id="replaced-savepoints-stay", breaks="no_leaks", summary="a claimed savepoint is forgotten")
def replaced_savepoints_stay(reached: Reached) -> Iterator[None]:
    def left(storage: Any, folder: str, find: Any) -> None:
        reached()

    with replaced(job_startup, "_delete_replaced", left):
        yield


@mutant(id="empty-snapshots-under-way", breaks="no_error", summary="files are known that will have gone")
def empty_snapshots_under_way(reached: Reached) -> Iterator[None]:
    def known(self: RocksDBStateBackend) -> dict[str, Any]:
        if None in self._snapshots.values() and self._stored_files:
            reached()
        return self._stored_files

    with replaced(RocksDBStateBackend, "_known_files", property(known)):
        yield


@mutant(id="time-before-a-restore-is-forgotten", breaks="state_equivalence", summary="a bug of the harness")
def time_before_a_restore_is_forgotten(reached: Reached) -> Iterator[None]:
    def begun_anew(self: CheckpointRecorder, attempt: str, restored: int | None) -> None:
        if restored is not None:
            reached()
        self._restored[attempt] = {}

    with replaced(CheckpointRecorder, "attempt_started", begun_anew):
        yield


@mutant(id="overtaken-savepoints-are-asked", breaks="restore_anywhere", summary="a bug of the harness")
def overtaken_savepoints_are_asked(reached: Reached) -> Iterator[None]:
    def in_order(self: CheckpointRecorder, savepoint_id: int, visible: Iterable[Event]) -> bool:
        reached()
        return False

    with replaced(CheckpointRecorder, "_is_overtaken", in_order):
        yield


@mutant(id="confirmed-by-the-last-user", breaks="no_error", summary="what a checkpoint names may be moved")
def confirmed_by_the_last_user(reached: Reached) -> Iterator[None]:
    def completed(self: SharedStateRegistry, metadata: CheckpointMetadata) -> None:
        for entry in self._entries.values():
            if entry.last_used_by == metadata.checkpoint_id:
                entry.is_confirmed = True
            else:
                reached()

    with replaced(SharedStateRegistry, "completed", completed):
        yield


@mutant(id="former-share-for-ever", breaks="no_leaks", summary="what former checkpoints share stays")
def former_share_for_ever(reached: Reached) -> Iterator[None]:
    def folder_only(storage: Any, checkpoint_id: int, retained: Any, check: Any) -> None:
        reached()
        discard_checkpoint(storage, checkpoint_id)

    with replaced(job_driver, "discard_former", folder_only):
        yield


@mutant(id="claim-is-looked-up-once", breaks="no_error", summary="a storage has to answer at once")
def claim_is_looked_up_once(reached: Reached) -> Iterator[None]:
    def once(self: JobClaim) -> bool:
        try:
            return not self._is_held()
        except OSError:
            reached()
            raise

    with replaced(JobClaim, "is_lost", property(once)):
        yield


@mutant(id="upstream-is-not-asked", breaks="state_equivalence", summary="a bug of the harness")
def upstream_is_not_asked(reached: Reached) -> Iterator[None]:
    upstream = checkpoint_recorder._upstream_of

    def no_upstream(graph: Any, chosen: Any) -> dict[str, frozenset[str]]:
        reached()
        return dict.fromkeys(upstream(graph, chosen), frozenset())

    with replaced(checkpoint_recorder, "_upstream_of", no_upstream):
        yield


@mutant(id="only-files-tell-of-time", breaks="state_equivalence", summary="a bug of the harness")
def only_files_tell_of_time(reached: Reached) -> Iterator[None]:
    def by_files(self: CheckpointRecorder, operator: OperatorMetadata) -> Iterator[int]:
        for subtask in operator.subtasks:
            if subtask.finished:
                reached()
            if subtask.handle is not None:
                yield self._furthest.get(subtask.handle.path, MIN_WATERMARK)

    with replaced(CheckpointRecorder, "_furthest_of", by_files):
        yield


@mutant(id="overtaken-triggers-are-dropped", breaks="no_error", summary="what was overtaken is not declined")
def overtaken_triggers_are_dropped(reached: Reached) -> Iterator[None]:
    comes_too_late = Task._comes_too_late

    def silent(self: Task, checkpoint_id: int) -> bool:
        if comes_too_late(self, checkpoint_id):
            reached()
        return False

    with replaced(Task, "_comes_too_late", silent):
        yield


@mutant(id="abort-leaves-channels-blocked", breaks="liveness", summary="an abort notice frees no channel")
def abort_leaves_channels_blocked(reached: Reached) -> Iterator[None]:
    def noted_only(self: UnalignedTask, message: NotifyCheckpointAborted) -> Sequence[TaskEffect]:
        reached()
        return Task.checkpoint_aborted(self, message)

    # A barrier that overtakes waits for room, as it did then.
    with (
        replaced(UnalignedTask, "checkpoint_aborted", noted_only),
        replaced(actions, "next_overtakes", lambda queue: False),
    ):
        yield


@mutant(id="notices-come-too-early", breaks="liveness", summary="a notice frees only what is blocked already")
def notices_come_too_early(reached: Reached) -> Iterator[None]:
    abort = UnalignedBarrierHandler._abort_notified

    def of_blocked_channels(
        self: UnalignedBarrierHandler, checkpoint_id: int, effects: list[BarrierEffect]
    ) -> None:
        if self.holds_channels and checkpoint_id == self.latest_checkpoint_id:
            abort(self, checkpoint_id, effects)
        else:
            reached()

    with replaced(UnalignedBarrierHandler, "_abort_notified", of_blocked_channels):
        yield


@mutant(
    id="batches-wait-behind-a-stop", breaks="consistent_cut", summary="a stop is a checkpoint like any other"
)
def batches_wait_behind_a_stop(reached: Reached) -> Iterator[None]:
    def unnoticed(self: GenericWriteAheadSink, checkpoint_id: int) -> None:
        reached()

    with replaced(GenericWriteAheadSink, "stop_with", unnoticed):
        yield


@mutant(id="late-deletions-are-no-failures", breaks="no_leaks", summary="a bug of the harness")
def late_deletions_are_no_failures(reached: Reached) -> Iterator[None]:
    without = tuple(each for each in STORAGE_FAILED if each[0] != LATE_DELETE)
    reached()
    with replaced(user_requests, "STORAGE_FAILED", without):
        yield


@mutant(id="overtaking-barriers-wait", breaks="liveness", summary="barriers that overtake wait for room")
def overtaking_barriers_wait(reached: Reached) -> Iterator[None]:
    def waits(queue: outputs.Queue) -> bool:
        reached()
        return False

    with replaced(actions, "next_overtakes", waits):
        yield


@mutant(id="deletions-are-never-undone", breaks="no_leaks", summary="a bug of the harness")
def deletions_are_never_undone(reached: Reached) -> Iterator[None]:
    lose_power = StorageOnDisk.lose_power

    def for_good(self: StorageOnDisk) -> None:
        reached()
        lose_power(self)
        self.undeleted.clear()

    with replaced(StorageOnDisk, "lose_power", for_good):
        yield


@mutant(id="what-was-never-there-is-listed", breaks="no_error", summary="a bug of the harness")
def what_was_never_there_is_listed(reached: Reached) -> Iterator[None]:
    def everything(self: SimulatedStorage, path: str) -> bool:
        reached()
        return True

    with replaced(SimulatedStorage, "exists", everything):
        yield


@mutant(id="stops-never-expire", breaks="no_error", summary="a bug of the harness")
def stops_never_expire(reached: Reached) -> Iterator[None]:
    reached()
    with replaced(user_requests, "EXPIRED", "no such reason"):
        yield


@mutant(id="first-value-keeps-its-lane", breaks="state_equivalence", summary="a bug of a family")
def first_value_keeps_its_lane(reached: Reached) -> Iterator[None]:
    def first_renamed(
        self: TumblingByTimers, value: tuple[str, str, str, int], ctx: KeyedProcessFunction.Context
    ) -> None:
        reached()
        last = self._last_of_window(ctx)
        before = self._inside.get(last)
        one = (self._name[1:], *value[1:]) if before is None else together(before, value)
        self._inside.put(last, one)
        ctx.timer_service().register_event_time_timer(last)

    with replaced(TumblingByTimers, "process_element", first_renamed):
        yield


@mutant(id="declines-in-batch-never-back-off", breaks="liveness", summary="a job only declines")
def declines_never_back_off(reached: Reached) -> Iterator[None]:
    failed = FailureCounter.failed

    def counted(self: FailureCounter, checkpoint_id: int, reason: str, *args: Any, **named: Any) -> bool:
        if reason == DECLINED_IN_BATCH:
            reached()
        return failed(self, checkpoint_id, reason, *args, **named)

    with replaced(coordinator, "MOST_DOUBLINGS", 0), replaced(FailureCounter, "failed", counted):
        yield


@mutant(
    id="watch-keeps-what-never-completed",
    breaks="conformance",
    summary="windows are compared with those of an earlier attempt's checkpoint of the same number",
)
def earlier_windows_are_kept(reached: Reached) -> Iterator[None]:
    with replaced(WatchedWindows, "_forget_later_than", lambda *arguments: reached()):
        yield


@mutant(id="restored-jobs-never-expire", breaks="restore_anywhere", summary="a bug of the harness")
def restored_jobs_never_expire(reached: Reached) -> Iterator[None]:
    def endless(scenario: Scenario) -> int:
        reached()
        return 10 * scenario.step_budget

    with replaced(comparison_runs, "ample_timeout_ms", endless):
        yield


@mutant(id="changed-input-is-submitted-again", breaks="no_error", summary="a bug of the harness")
def changed_input_is_submitted_again(reached: Reached) -> Iterator[None]:
    def names_none(self: RunRecorder, cause: str) -> bool:
        reached()
        return False

    with replaced(RunRecorder, "names_changed_input", names_none):
        yield


@mutant(id="finished-tasks-run-again", breaks="conformance", summary="a failed checkpoint undoes the end")
def finished_tasks_run_again(reached: Reached) -> Iterator[None]:
    follow = JobMaster._follow

    def restarts(self: JobMaster, event: Any, effects: Sequence[Any], now: int) -> Sequence[Any]:
        followed = follow(self, event, effects, now)
        too_many = master._too_many_failures(effects)
        if too_many is None or followed is not effects or self.state is not master.JobState.RUNNING:
            return followed
        reached()
        return [*effects, *self._end_attempt(too_many.reason, now)]

    with replaced(JobMaster, "_follow", restarts):
        yield


@mutant(id="starting-point-is-a-checkpoint", breaks="no_leaks", summary="a bug of the harness")
def starting_point_is_a_checkpoint(reached: Reached) -> Iterator[None]:
    completed = RetentionWatch.completed

    def taken(self: RetentionWatch, metadata: CheckpointMetadata) -> None:
        completed(self, metadata)
        if metadata.kind == CHECKPOINT and all(each is not metadata for each, _ in self._complete):
            reached()
            self._complete.append((metadata, needed_files(metadata)))

    with replaced(RetentionWatch, "completed", taken):
        yield


@mutant(id="other-groups-are-compared", breaks="state_equivalence", summary="a bug of the harness")
def other_groups_are_compared(reached: Reached) -> Iterator[None]:
    with replaced(checkpoint_trials, "_has_other_groups", lambda *arguments: bool(reached())):
        yield


PLANTED_AGAIN: dict[str, Mutant] = {
    "checkpoint_number_given_twice": earlier_windows_are_kept,
    "stop_leaves_the_batches_of_its_savepoint": find_mutant("batch-of-a-stop-waits-for-a-checkpoint"),
    "batch_of_an_attempt_without_checkpoints": find_mutant("attempts-name-their-output-alike"),
    "declines_in_batch_leave_no_time_for_records": declines_never_back_off,
    "aborted_checkpoint_blocks_its_channels": abort_leaves_channels_blocked,
    "barrier_comes_behind_the_notice_of_its_abort": notices_come_too_early,
    "files_known_over_an_empty_snapshot": empty_snapshots_forget,
    "files_known_while_an_empty_snapshot_is_under_way": empty_snapshots_under_way,
    "barriers_take_the_room_of_records": barriers_take_room,
    "overtaking_barrier_waits_for_room": overtaking_barriers_wait,
    "shared_files_of_checkpoints_before_the_savepoint": former_share_for_ever,
    "shared_file_moved_after_it_was_named": confirmed_by_the_last_user,
    "counted_triggers_out_of_order": counted_in_any_order,
    "backpressure_of_finished_task": find_mutant("finished-task-keeps-its-queues"),
    "finished_while_aligning": close_forgets_the_channels,
    "savepoint_overtaken_by_a_committed_checkpoint": overtaken_savepoints_are_asked,
    "restored_behind_the_time_of_its_state": time_before_a_restore_is_forgotten,
    "end_of_data_without_a_watermark": only_files_tell_of_time,
    "barrier_overtakes_the_end_of_data": upstream_is_not_asked,
    "restored_when_nothing_is_stored_any_more": only_files_tell_of_time,
    "record_in_flight_changed_by_its_reader": find_mutant("records-in-flight-are-shared"),
    "claimed_savepoint_replaced_by_another": replaced_savepoints_stay,
    "overtaken_trigger_waits_for_its_expiry": overtaken_triggers_are_dropped,
    "drained_source_reads_on": find_mutant("drained-source-reads-on"),
    "claim_cannot_be_looked_up_for_a_moment": claim_is_looked_up_once,
    "write_ahead_sink_stops_before_its_commits": batches_wait_behind_a_stop,
    "late_deletion_of_a_claimed_savepoint": late_deletions_are_no_failures,
    "deletion_of_a_claimed_savepoint_undone_by_a_power_cut": deletions_are_never_undone,
    "listing_names_a_file_that_was_never_there": what_was_never_there_is_listed,
    "savepoint_of_a_stop_expires_behind_slow_answers": stops_never_expire,
    "window_keeps_the_lane_of_its_first_value": first_value_keeps_its_lane,
    "restored_without_state_in_other_key_groups": other_groups_are_compared,
    "savepoint_of_a_dying_process_is_found": starting_point_is_a_checkpoint,
    "checkpoint_fails_behind_the_end_of_all_tasks": finished_tasks_run_again,
    "changed_input_fails_at_each_submission": changed_input_is_submitted_again,
    "restored_job_waits_for_an_expiry": restored_jobs_never_expire,
}


def test_there_are_regressions() -> None:
    assert {path.stem for path in FILES} >= set(PLANTED_AGAIN)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_fixed_bug_stays_fixed(path: Path) -> None:
    scenario = read_scenario(path)
    assert try_scenario(load_family(scenario.family), scenario, twice=False).verdict.violations == ()


@pytest.mark.parametrize("name", PLANTED_AGAIN)
def test_the_bug_planted_again_is_seen(name: str) -> None:
    scenario = read_scenario(FOLDER / f"{name}.json")
    # A stuck run takes all of its steps.
    scenario = replace(scenario, step_budget=min(scenario.step_budget, LONGEST_SOUND_RUN))
    with PLANTED_AGAIN[name].applied() as reach:
        assert not try_scenario(load_family(scenario.family), scenario).verdict.passed
    assert reach.times


def test_a_deadlock_is_reported_as_a_circle_of_tasks_that_wait() -> None:
    name = "aborted_checkpoint_blocks_its_channels"
    scenario = read_scenario(FOLDER / f"{name}.json")
    with PLANTED_AGAIN[name].applied():
        (violation,) = try_scenario(load_family(scenario.family), scenario).verdict.violations
    circle = violation.witness[CIRCLE]
    assert len(circle) > 1
    assert any("holds channels back until checkpoint" in wait for wait in circle)
    for wait, after in zip(circle, [*circle[1:], circle[0]], strict=True):
        waiting = after.split(" has no room ")[0].split(" holds channels ")[0]
        assert wait.endswith(f" {waiting}")
    assert "    " + circle[0] in list(violation_lines([violation]))
