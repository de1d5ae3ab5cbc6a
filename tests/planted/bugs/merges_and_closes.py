"""Mutants of merged windows, late answers, closes and timers, as a change of the engine could bring them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import onceproof.engine.api.datastream as datastream
from onceproof.engine.checkpoint.coordinator import CheckpointCoordinator
from onceproof.engine.checkpoint.shared_registry import SharedStateRegistry
from onceproof.engine.connectors.two_phase import _STATE, TwoPhaseCommitSinkFunction, _listed
from onceproof.engine.connectors.write_ahead import GenericWriteAheadSink, PendingBatch
from onceproof.engine.functions import KeyedProcessFunction
from onceproof.engine.job.master import JobMaster
from onceproof.engine.job.restart_strategies import EqualErrors
from onceproof.engine.operators.firing import overrides_on_timer
from onceproof.engine.operators.interval_join import RIGHT, IntervalJoinOperator
from onceproof.engine.operators.window import WindowOperator
from onceproof.engine.operators.window_parts import TriggerAndEvictorContext
from onceproof.engine.state.hashmap import HeapLists, HeapMaps
from onceproof.engine.state.ttl_states import TtlAggregatingState, TtlReducingState
from onceproof.engine.task.task import CANCELED, NOTHING, STOPPED, Task
from onceproof.engine.watermarks.generators import WatermarksWithIdleness
from onceproof.engine.windows.triggers import PurgingTrigger

# ---- Easy to trip over.
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="trigger-state-stays-at-one-window",
    breaks="exactly_once",
    summary="the context of triggers caches a state with its namespace, so all windows share one",
)
def trigger_state_stays_at_one_window(reached: Reached) -> Iterator[None]:
    """The namespace is set where the state is made, and not where it is found in the cache."""

    def cached(self: TriggerAndEvictorContext, state_descriptor: Any) -> Any:
        state = self._states.get(state_descriptor.name)
        if state is None:
            state = self._backend.state(state_descriptor, self._window_type)
            state.set_current_namespace(self.namespace)
            self._states[state_descriptor.name] = state
        elif state._namespace != self.namespace:
            reached()
        return state

    with replaced(TriggerAndEvictorContext, "get_partitioned_state", cached):
        yield


@mutant(
    id="window-at-its-end-counts-as-not-reached",
    breaks="conformance",
    summary="a window that ends at the watermark takes late records in without asking its trigger",
)
def window_at_its_end_counts_as_not_reached(reached: Reached) -> Iterator[None]:
    """The cache of windows with timers keeps a window until the watermark is beyond its end."""

    def beyond(self: WindowOperator, watermark: int) -> None:
        windows = self._windows_with_timers
        if any(window.max_timestamp() == watermark for window in windows):
            reached()
        for window in [window for window in windows if window.max_timestamp() < watermark]:
            self._known_timers -= len(windows.pop(window)[1])

    with replaced(WindowOperator, "_forget_reached_windows", beyond):
        yield


@mutant(
    id="right-side-of-a-join-waits-for-the-lower-bound",
    breaks="exactly_once",
    summary="an interval join removes right records too soon, as the sign of the lower bound is forgotten",
)
def right_side_of_a_join_waits_for_the_lower_bound(reached: Reached) -> Iterator[None]:
    """With a lower bound below zero, a left record finds no right one from before the watermark."""
    initialize, process_watermark = IntervalJoinOperator.__init__, IntervalJoinOperator.process_watermark

    def forgetting_the_sign(self: IntervalJoinOperator, function: Any, keys: Any, settings: Any) -> None:
        initialize(self, function, keys, settings)
        self._waits = (max(settings.upper_ms, 0), max(settings.lower_ms, 0))

    def noticing(self: IntervalJoinOperator, timestamp: int) -> list[Any]:
        lower_ms = self._settings.lower_ms
        if lower_ms < 0:
            for _, (due_ms, side) in self.timers.event.stored():
                if side == RIGHT and due_ms <= timestamp < due_ms - lower_ms:
                    reached()
                    break
        return process_watermark(self, timestamp)

    with (
        replaced(IntervalJoinOperator, "__init__", forgetting_the_sign),
        replaced(IntervalJoinOperator, "process_watermark", noticing),
    ):
        yield


@mutant(
    id="quiet-times-of-a-split-add-up",
    breaks="exactly_once",
    summary="a record does not end the quiet time of its split, which turns idle though its pauses are short",
)
def quiet_times_of_a_split_add_up(reached: Reached) -> Iterator[None]:
    """The next pause is measured from the beginning of the first one."""

    def not_reset(self: WatermarksWithIdleness) -> bool:
        if self._was_active:
            if self._quiet_since is not None:
                reached()
            self._was_active = False
            return False
        if self._quiet_since is None:
            self._quiet_since = self._clock()
            return False
        return self._clock() - self._quiet_since > self._idle_timeout_ms

    with replaced(WatermarksWithIdleness, "_has_timed_out", not_reset):
        yield


@mutant(
    id="only-the-first-snapshot-shares-containers",
    breaks="exactly_once",
    summary="lists and maps that have changed since the first snapshot change in place under all later ones",
)
def only_the_first_snapshot_shares_containers(reached: Reached) -> Iterator[None]:
    """What is noted as owned by the table is not forgotten when another snapshot shares it."""

    def share_once(self: Any) -> dict[Any, Any]:
        if self._own is None:
            self._own = set()
        elif self._own:
            reached()
        return self.entries.copy()

    with replaced(HeapLists, "share", share_once), replaced(HeapMaps, "share", share_once):
        yield


@mutant(
    id="late-answer-dates-a-shared-file-back",
    breaks="restore_anywhere",
    summary="a late answer of an older checkpoint makes a shared file look unused by the newer one",
    on_databases=True,
)
def late_answer_dates_a_shared_file_back(reached: Reached) -> Iterator[None]:
    """The last answer says who uses a file, not the newest checkpoint."""
    register = SharedStateRegistry.register

    def by_the_last_answer(
        self: SharedStateRegistry, checkpoint_id: int, content: str, path: str
    ) -> tuple[str, str | None]:
        answer = register(self, checkpoint_id, content, path)
        entry = self._entries[content]
        if entry.last_used_by > checkpoint_id:
            reached()
            entry.last_used_by = checkpoint_id
        return answer

    with replaced(SharedStateRegistry, "register", by_the_last_answer):
        yield


@mutant(
    id="interrupted-stop-refuses-all-later-requests",
    breaks="liveness",
    summary="a job whose stop was cut short by a failure answers every later request that it is ending",
    # A request that comes later shows it: those of input without an end do.
    families=("closing_sums", "async_lookups", "order_lines", "word_count"),
)
def interrupted_stop_refuses_all_later_requests(reached: Reached) -> Iterator[None]:
    """The request that was aborted with its attempt is not forgotten."""
    end_attempt = JobMaster._end_attempt

    def remembering(self: JobMaster, cause: str, now: int, **how: Any) -> Sequence[Any]:
        ending = self.ending
        effects = end_attempt(self, cause, now, **how)
        if ending is not None and self.ending is None:
            reached()
            self.ending = ending
        return effects

    with replaced(JobMaster, "_end_attempt", remembering):
        yield


@mutant(
    id="equal-errors-count-in-spite-of-checkpoints",
    breaks="liveness",
    summary="errors that come again in the same way end the job, though checkpoints completed in between",
    unseen="no fault raises one error again and again",
)
def equal_errors_count_in_spite_of_checkpoints(reached: Reached) -> Iterator[None]:
    """The checkpoint that a restart would restore is no part of the place of an error."""
    notify_failure = EqualErrors.notify_failure

    def without_the_checkpoint(
        self: EqualErrors, vertex: int, error: str, taken: int, latest_id: int
    ) -> bool:
        last = self._last
        if error and last is not None and last[:3] == (vertex, error, taken) and last[3] != latest_id:
            reached()
            self._last = (vertex, error, taken, latest_id)
        return notify_failure(self, vertex, error, taken, latest_id)

    with replaced(EqualErrors, "notify_failure", without_the_checkpoint):
        yield


@mutant(
    id="batches-overtake-one-that-failed",
    breaks="consistent_cut",
    summary="a write-ahead sink goes on with later batches when the target raises for an earlier one",
)
def batches_overtake_one_that_failed(reached: Reached) -> Iterator[None]:
    """The loop continues with the next batch instead of waiting for the next checkpoint."""
    send_up_to, send = GenericWriteAheadSink._send_up_to, GenericWriteAheadSink.send_unless_committed
    failed: list[PendingBatch] = []

    def noted(self: GenericWriteAheadSink, batch: PendingBatch) -> bool:
        try:
            return send(self, batch)
        except Exception:
            failed.append(batch)
            raise

    def going_on(self: GenericWriteAheadSink, checkpoint_id: int, *, is_last: bool) -> None:
        send_up_to(self, checkpoint_id, is_last=is_last)
        while failed:
            batches = self.pending_batches()
            later = batches[batches.index(failed.pop()) + 1 :]
            if any(batch.checkpoint_id <= checkpoint_id for batch in later):
                reached()
            with replaced(GenericWriteAheadSink, "pending_batches", lambda _, later=later: later):
                send_up_to(self, checkpoint_id, is_last=is_last)

    with (
        replaced(GenericWriteAheadSink, "send_unless_committed", noted),
        replaced(GenericWriteAheadSink, "_send_up_to", going_on),
    ):
        yield


@mutant(
    id="stopped-tasks-are-cancelled-without-a-close",
    breaks="no_leaks",
    summary="a task that has taken the savepoint of a stop is cancelled without closing its operators",
)
def stopped_tasks_are_cancelled_without_a_close(reached: Reached) -> Iterator[None]:
    """Only running tasks and those at the end of their data count as open."""
    cancel = Task._cancel

    def only_of_two_states(self: Task, event: Any) -> Sequence[Any]:
        if self.state is not STOPPED:
            return cancel(self, event)
        reached()
        self._enter(CANCELED)
        return NOTHING

    with replaced(Task, "_cancel", only_of_two_states):
        yield


@mutant(
    id="purging-trigger-merges-nothing",
    breaks="exactly_once",
    summary="a purging trigger around another one does not hand on that windows have merged",
)
def purging_trigger_merges_nothing(reached: Reached) -> Iterator[None]:
    """The state of the trigger inside is that of the last window alone; what it had counted is lost."""

    def on_merge(self: PurgingTrigger, window: Any, ctx: Any) -> None:
        reached()

    with replaced(PurgingTrigger, "on_merge", on_merge):
        yield


@mutant(
    id="additions-revive-expired-values",
    breaks="exactly_once",
    summary="adding to a reducing or aggregating state goes on with a value whose time to live is over",
)
def additions_revive_expired_values(reached: Reached) -> Iterator[None]:
    """An addition looks into the table, and leaves expiry to reads and the cleanup."""

    def held_by(self: Any) -> Any:
        held = self._table.get(self._entry())
        if held is not None and held[1] + self._life.ttl_ms <= self._life.now():
            reached()
        return None if held is None else held[0]

    def reduce(self: TtlReducingState, value: Any) -> None:
        if value is None:
            self.clear()
            return
        before = held_by(self)
        self._write(value if before is None else self._function(before, value))

    def aggregate(self: TtlAggregatingState, value: Any) -> None:
        if value is None:
            self.clear()
            return
        accumulator = held_by(self)
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        self._write(self._function.add(value, accumulator))

    with replaced(TtlReducingState, "add", reduce), replaced(TtlAggregatingState, "add", aggregate):
        yield


@mutant(
    id="user-context-hides-further-transactions",
    breaks="exactly_once",
    summary="a sink with a user context that takes over from several subtasks commits for the first one only",
)
def user_context_hides_further_transactions(reached: Reached) -> Iterator[None]:
    """``found or take(...)`` does not take what comes behind the first list with a context."""

    def take_over(self: TwoPhaseCommitSinkFunction, context: Any, take: Any) -> None:
        store = context.get_operator_state_store()
        runtime_context = self.get_runtime_context()
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.attempt = runtime_context.get_attempt_id()
        self.owner = runtime_context.get_owner_id()
        restored_checkpoint_id = context.get_restored_checkpoint_id()
        self._state = store.get_list_state(_STATE)
        has_user_context = False
        if restored_checkpoint_id is not None:
            for stored in self._state.get():
                if has_user_context:
                    reached()
                has_user_context = has_user_context or take(_listed(stored), restored_checkpoint_id)
        if not has_user_context:
            self._user_context = self.initialize_user_context()
        self._pending.clear()

    with replaced(TwoPhaseCommitSinkFunction, "_take_over", take_over):
        yield


@mutant(
    id="timers-of-plain-process-functions-are-unheard",
    breaks="exactly_once",
    summary="a plain process function on a keyed stream is taken for one that hears no timers",
)
def timers_of_plain_process_functions_are_unheard(reached: Reached) -> Iterator[None]:
    """Only a KeyedProcessFunction is asked whether it overrides ``on_timer``."""
    has_timers = datastream.has_timers

    def of_keyed_ones(function: Any) -> bool:
        found = isinstance(function, KeyedProcessFunction) and overrides_on_timer(
            function, KeyedProcessFunction
        )
        if found != has_timers(function):
            reached()
        return found

    with replaced(datastream, "has_timers", of_keyed_ones):
        yield


@mutant(
    id="tasks-of-a-checkpoint-outlive-a-rescale",
    breaks="liveness",
    summary="after a rescale in its process a job waits in each checkpoint for the tasks that it had before",
)
def tasks_of_a_checkpoint_outlive_a_rescale(reached: Reached) -> Iterator[None]:
    """The cached tasks of a checkpoint are those of the first attempt."""
    begin_attempt = CheckpointCoordinator._begin_attempt

    def keeping(self: CheckpointCoordinator, plan: Any, effects: list[Any]) -> None:
        kept = self._undisturbed
        begin_attempt(self, plan, effects)
        if kept is not None and set(kept.answering) != set(plan.upstreams):
            reached()
        self._undisturbed = kept

    with replaced(CheckpointCoordinator, "_begin_attempt", keeping):
        yield
