"""Plants defects that attacks on the engine have found, each around the test that must catch it.

The rules this module lives by:

- Every defect here was in the engine, and shows only outside of the simulation: in real threads, processes,
  folders and files, in the log, or in programs of a kind that no family has. Those that the simulation can
  show are in ``tests/planted``.
- It is a plugin of pytest, for a process of its own: ``pytest -p tests.engine.planted_defects TEST...``. A
  test that ``PLANTED`` names runs with its defect, any other one without.
- One failure of a test is enough: its other cases do not run.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from msgspec.structs import replace

from onceproof.engine.checkpoint import metadata
from onceproof.engine.checkpoint.events import MetadataStored
from onceproof.engine.connectors import (
    file_content,
    file_sink,
    file_sink_function,
    known_files,
    sqlite,
    upsert_fence,
)
from onceproof.engine.connectors import print as print_sink
from onceproof.engine.connectors.commit_ledger import CommitLedger
from onceproof.engine.connectors.jdbc.exactly_once_function import ExactlyOnceFunction
from onceproof.engine.connectors.kafka.topic_ids import TopicWatch
from onceproof.engine.connectors.postgres.postgres_sinks import LedgerCommitter
from onceproof.engine.connectors.postgres.table_guard import GrowingGuard, RangeGuard
from onceproof.engine.connectors.two_phase import Recovery
from onceproof.engine.connectors.upsert_fence import UpsertFence
from onceproof.engine.protocol_points import COORDINATOR, METADATA_WRITTEN
from onceproof.engine.runtime import job_identity, lease, spark_settings, storage
from onceproof.engine.runtime.checkpoint_writer import CheckpointWriter
from onceproof.engine.runtime.growing_pause import GrowingPause
from onceproof.engine.runtime.job_driver import JobDriver
from onceproof.engine.runtime.job_requests import publish_metadata
from onceproof.engine.runtime.local import LocalExecution
from onceproof.engine.runtime.recovery import METADATA
from onceproof.engine.runtime.remote_storage import RemoteCheckpointStorage
from onceproof.engine.runtime.spark_executors import Patience
from onceproof.engine.state import snapshot
from onceproof.engine.state.key_blocks import KeyBlock, KeySorter
from onceproof.engine.state.rocksdb import database
from onceproof.engine.task.task import Task
from onceproof.engine.types.information import TypeInformation
from tests.engine.planted_in_values import (
    data_imports_the_classes_that_it_names,
    opaque_objects_are_noticed_by_the_restore,
)

Plant = Callable[[pytest.MonkeyPatch, pytest.Function], None]


def names_in_checkpoints_are_trusted(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    for module in (metadata, snapshot, database):
        patch.setattr(module, "is_database_file", lambda name: True)
    for module in (metadata, storage):
        patch.setattr(module, "leads_out", lambda path: False)


def links_are_followed(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    patch.setattr(storage, "_refuse_link", lambda path: None)


def files_of_other_owners_are_swept(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    may_abort = Recovery.may_abort

    def of_any_owner(self: Recovery, subtask: int, epoch: int, attempt: str, owner: str) -> bool:
        return may_abort(self, subtask, epoch, attempt, self.owner)

    patch.setattr(Recovery, "may_abort", of_any_owner)


def changed_keys_are_taken_for_the_earlier_ones(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    class Unchanged(list[Any]):
        def __ne__(self, other: object) -> bool:
            return False

    begin = KeySorter.__init__

    def trusting(self: KeySorter, earlier: list[KeyBlock], *types: Any) -> None:
        trusted = [replace(block, identities=Unchanged(block.identities)) for block in earlier]
        begin(self, trusted, *types)

    patch.setattr(KeySorter, "__init__", trusting)


def forks_keep_locks(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    """Plant it in the program that the test starts."""
    forgetting = (
        "from onceproof.engine import file_locks\n"
        "class Forgetting(set):\n"
        "    def add(self, descriptor): pass\n"
        "file_locks._held = Forgetting()\n"
    )
    programs = test.module.HOLDERS
    for name, program in programs.items():
        patch.setitem(programs, name, forgetting + test.module.dedent(program))


def dead_attempts_keep_their_timers(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    cancel = LocalExecution.cancel_tasks

    def keeping(self: LocalExecution, effect: Any) -> None:
        timers = self._timers
        cancel(self, effect)
        self._timers = timers

    patch.setattr(LocalExecution, "cancel_tasks", keeping)


def uploads_of_aborted_checkpoints_wait_on(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    patch.setattr(CheckpointWriter, "withdraw", lambda self, is_void: [])


def the_end_is_tried_without_a_pause(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    patch.setattr(GrowingPause, "failed", lambda self, now: None)


def failures_are_not_logged(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    patch.setattr(logging.Logger, "handle", lambda self, record: None)


def metadata_are_put_after_the_claim_was_checked(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    """The process that puts them last wins."""
    create = RemoteCheckpointStorage.create_exclusive

    def put(self: RemoteCheckpointStorage, path: str, data: bytes = b"") -> bool:
        if not path.endswith(METADATA):
            return create(self, path, data)
        self.write(path, data)
        return True

    def publish(self: JobDriver, completed: metadata.CheckpointMetadata) -> None:
        self.check_claim()
        publish_metadata(self.storage, self.history, completed, self.next_starting_point(completed))

    patch.setattr(RemoteCheckpointStorage, "create_exclusive", put)
    patch.setattr(JobDriver, "publish", publish)


def values_are_given_to_sqlite_unseen(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    patch.setattr(sqlite, "unwritable", lambda value: None)


def upserts_are_not_fenced(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    patch.setattr(UpsertFence, "require", lambda self, entered, execute: None)


def rows_that_a_database_has_lost_are_not_missed(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    patch.setattr(upsert_fence, "lacks", lambda known, covered: False)


def topic_ids_are_not_compared(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    patch.setattr(TopicWatch, "compare", lambda self, found, offset: None)


def entries_that_a_ledger_has_lost_are_not_missed(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    patch.setattr(ExactlyOnceFunction, "is_there", lambda self, name, known_ms, session: True)
    patch.setattr(LedgerCommitter, "check_sent", lambda self: None)


def what_leaves_a_function_ends_the_job(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    task_died = LocalExecution.task_died

    def only_of_exceptions(self: LocalExecution, task: Task, error: BaseException) -> None:
        if not isinstance(error, Exception):
            # Pytest itself would end at a KeyboardInterrupt.
            raise SystemExit from error
        task_died(self, task, error)

    patch.setattr(LocalExecution, "task_died", only_of_exceptions)


def columns_are_copied_by_map(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    def copied(self: TypeInformation, values: list[Any]) -> list[Any]:
        return values if self.immutable else list(map(self.copy, values))

    patch.setattr(TypeInformation, "copy_column", copied)


def _in_programs(patch: pytest.MonkeyPatch, test: pytest.Function, patience: float, *lines: str) -> None:
    """Plant a defect in the programs that the test starts, and wait less for what does not come."""
    patch.setattr(test.module, "PREAMBLE", list(lines))
    patch.setattr(test.module, "PATIENCE_SECONDS", patience)


def children_that_come_back_run_the_job(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    _in_programs(
        patch,
        test,
        5,
        "from onceproof.engine import forked_children",
        "forked_children._caller_of_user_code = lambda forking: None",
    )


def deaths_are_seen_by_connections_that_forks_keep(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    _in_programs(
        patch,
        test,
        10,
        "from onceproof.engine.runtime.workers import launcher",
        "launcher.close_in_children = lambda *connections: None",
        "launcher.process_descriptor = lambda pid: None",
    )


def silence_is_no_death(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    _in_programs(
        patch,
        test,
        15,
        "from onceproof.engine.job.heartbeats import HeartbeatMonitor",
        "HeartbeatMonitor.is_overdue = lambda self, now: False",
    )


def closed_stdout_may_be_open_again(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    patch.setattr(print_sink, "UnrecoverableError", OSError)


def tables_are_taken_for_what_they_were(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    """A reader that notices nothing may wait for rows that never come."""
    patch.setattr(test.module, "PATIENCE_SECONDS", 1.0)
    for guard in (RangeGuard, GrowingGuard):
        patch.setattr(guard, "compare", lambda self, connection, read, mark, sequence: None)


def executors_get_the_driver_s_machine(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    patch.setattr(spark_settings, "is_local", lambda master: True)


def executors_are_waited_for_forever(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    patch.setattr(Patience, "handle", lambda self, sight, now: frozenset())


def positions_know_no_content(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    patch.setattr(file_content.Content, "check", lambda self, mark: b"")


def cut_files_end_their_splits(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    def size_of_now(self: file_content.Content) -> int:
        self._raw_size = os.fstat(self._descriptor).st_size
        return self.known_size

    patch.setattr(file_content.Content, "look", size_of_now)
    patch.setattr(file_content.Content, "holds", lambda self, offset, data: True)


def monitored_files_are_their_paths(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    patch.setattr(known_files.KnownFile, "is_in", lambda self, content: content.path == self.path)


def claims_are_checked_at_checkpoints_only(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    def report(self: JobDriver, checkpoint_id: int) -> None:
        self.probe(METADATA_WRITTEN, COORDINATOR, checkpoint_id)
        self.master_event(MetadataStored(checkpoint_id))

    patch.setattr(JobDriver, "metadata_published", report)


def an_empty_folder_gives_the_first_incarnation(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    patch.setattr(job_identity, "_refuse_lost_folder", lambda graph, directory: None)
    patch.setattr(file_sink_function, "refuse_earlier_run", lambda folder, names, place, owner: None)


def commits_look_for_their_target(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    patch.setattr(CommitLedger, "has", lambda self, folder, mark, number: False)


def ended_subtasks_are_forgotten(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    patch.setattr(CommitLedger, "_remembered", lambda self, folder, owner, subtask: [])


def the_first_in_line_is_waited_for(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    def patience_ms(self: Any, timeout_ms: int) -> float:
        return timeout_ms if self.is_first() else float("inf")

    patch.setattr(lease._Line, "patience_ms", patience_ms)
    # With the defect it waits forever for a lease of 200 ms.
    patch.setattr(test.module, "PATIENCE_SECONDS", 5.0)


def output_follows_the_working_folder(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    patch.setattr(file_sink, "base_path_of", os.fspath)


def one_missing_folder_hides_all_jobs(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    def list_readable(
        self: storage.LocalCheckpointStorage, folders: int | None = None
    ) -> tuple[list[str], dict[str, str]]:
        return self._list("", folders, None), {}

    patch.setattr(storage.LocalCheckpointStorage, "list_readable", list_readable)


def block_caches_outlive_their_databases(patch: pytest.MonkeyPatch, test: pytest.Function) -> None:
    patch.setattr(database, "BLOCK_CACHES", kept := {})
    patch.setattr(test.module, "BLOCK_CACHES", kept)


PLANTED: Final[dict[str, Plant]] = {
    "types/test_objects.py::test_a_hostile_value_is_an_error_of_its_decoding": (
        data_imports_the_classes_that_it_names
    ),
    "state/test_plain_values.py::test_the_first_opaque_value_is_refused_with_state_operator_and_type": (
        opaque_objects_are_noticed_by_the_restore
    ),
    "runtime/test_spark_options.py::test_executors_on_a_cluster_get_nothing_of_the_driver_s_machine": (
        executors_get_the_driver_s_machine
    ),
    "runtime/test_spark_executors.py::test_a_job_without_executors_is_cancelled_after_the_timeout": (
        executors_are_waited_for_forever
    ),
    "runtime/test_spark_executors.py::test_executors_that_register_and_die_again_and_again_are_none": (
        executors_are_waited_for_forever
    ),
    "state/test_file_names.py::test_a_forged_name_in_a_snapshot_is_a_damaged_file": (
        names_in_checkpoints_are_trusted
    ),
    "state/test_file_names.py::test_a_database_is_never_written_outside_of_its_folder": (
        names_in_checkpoints_are_trusted
    ),
    "state/test_file_names.py::test_a_forged_path_in_metadata_is_a_damaged_file": (
        names_in_checkpoints_are_trusted
    ),
    "runtime/test_storage.py::test_a_path_that_leaves_the_root_is_refused": names_in_checkpoints_are_trusted,
    "runtime/test_storage.py::test_nothing_is_written_through_a_link": links_are_followed,
    "runtime/test_storage.py::test_a_file_that_is_a_link_is_not_read_or_adopted": links_are_followed,
    "connectors/test_file_sink_sharing.py::test_two_jobs_in_one_folder_lose_nothing": (
        files_of_other_owners_are_swept
    ),
    "connectors/test_file_sink_sharing.py::test_job_beside_its_earlier_run_loses_nothing": (
        files_of_other_owners_are_swept
    ),
    "state/test_key_blocks.py::test_changes_between_snapshots_leave_no_entry_in_a_wrong_group": (
        changed_keys_are_taken_for_the_earlier_ones
    ),
    "test_file_locks.py::test_folder_is_free_once_its_process_is_killed_although_a_fork_lives": (
        forks_keep_locks
    ),
    "runtime/test_checkpoint_writer.py::test_dead_attempts_are_freed_although_their_timers_are_not_due": (
        dead_attempts_keep_their_timers
    ),
    "runtime/test_checkpoint_writer.py::test_uploads_of_expired_checkpoints_do_not_queue_up": (
        uploads_of_aborted_checkpoints_wait_on
    ),
    "runtime/test_checkpoint_writer.py::test_final_checkpoint_that_fails_is_repeated_with_growing_pauses": (
        the_end_is_tried_without_a_pause
    ),
    "runtime/test_job_log.py::test_job_on_a_full_disk_says_so_in_its_log_and_its_result": (
        failures_are_not_logged
    ),
    "runtime/test_split_brain.py::test_paused_process_and_its_successor_leave_one_history": (
        metadata_are_put_after_the_claim_was_checked
    ),
    "connectors/kafka/test_kafka_source.py::test_topic_created_again_is_not_read_from_the_old_offset": (
        topic_ids_are_not_compared
    ),
    "connectors/kafka/test_kafka_source.py::test_bounded_reader_does_not_end_in_another_topic": (
        topic_ids_are_not_compared
    ),
    "connectors/test_idempotent.py::test_process_that_has_lost_the_job_changes_no_row": (
        upserts_are_not_fenced
    ),
    "connectors/postgres/test_postgres_table_sinks.py::test_process_that_has_lost_the_job_changes_no_row": (
        upserts_are_not_fenced
    ),
    "connectors/postgres/test_postgres_sink.py::test_database_that_lacks_committed_rows_is_not_written_on": (
        entries_that_a_ledger_has_lost_are_not_missed
    ),
    "connectors/postgres/test_postgres_table_sinks.py::test_write_ahead_misses_what_the_database_lacks": (
        entries_that_a_ledger_has_lost_are_not_missed
    ),
    "connectors/postgres/test_postgres_sources.py::test_range_of_a_table_that_was_replaced_is_an_error": (
        tables_are_taken_for_what_they_were
    ),
    "connectors/postgres/test_postgres_sources.py::test_growing_key_that_begins_again_is_an_error": (
        tables_are_taken_for_what_they_were
    ),
    "connectors/test_idempotent.py::test_database_without_rows_that_the_checkpoint_covers_is_refused": (
        rows_that_a_database_has_lost_are_not_missed
    ),
    "connectors/test_idempotent.py::test_row_that_does_not_fit_is_named": values_are_given_to_sqlite_unseen,
    "runtime/test_leaving_functions.py::test_any_error_costs_an_attempt_and_no_row": (
        what_leaves_a_function_ends_the_job
    ),
    "types/test_types.py::test_no_value_is_cut_off_where_one_raises_stop_iteration": (
        columns_are_copied_by_map
    ),
    "runtime/test_forked_children.py::test_child_that_comes_back_from_a_function_ends_and_changes_nothing": (
        children_that_come_back_run_the_job
    ),
    "runtime/test_forked_children.py"
    "::test_death_of_a_worker_is_noticed_although_a_process_that_it_forked_lives": (
        deaths_are_seen_by_connections_that_forks_keep
    ),
    "runtime/test_forked_children.py"
    "::test_stopped_worker_is_killed_and_the_job_resumes_from_its_last_checkpoint": silence_is_no_death,
    "connectors/test_collect_and_print.py"
    "::test_stdout_that_takes_nothing_is_an_error_that_no_restart_mends": closed_stdout_may_be_open_again,
    "connectors/test_changed_files.py::test_changed_file_is_refused_on_restore_with_place_and_remedy": (
        positions_know_no_content
    ),
    "connectors/test_changed_files.py::test_changed_file_of_blocks_is_refused_on_restore": (
        positions_know_no_content
    ),
    "connectors/test_changed_files.py::test_file_that_changes_while_it_is_read_never_ends_its_split": (
        cut_files_end_their_splits
    ),
    "connectors/test_changed_files.py::"
    "test_file_of_blocks_that_is_cut_while_it_is_read_never_ends_its_split": cut_files_end_their_splits,
    "connectors/test_rotated_files.py::test_log_that_is_renamed_and_begun_anew_is_read_once": (
        monitored_files_are_their_paths
    ),
    "runtime/test_vanished_folder.py::test_job_whose_folder_vanishes_commits_nothing_more_and_fails": (
        claims_are_checked_at_checkpoints_only
    ),
    "runtime/test_vanished_folder.py::test_second_process_over_a_new_folder_does_not_write_the_rows_again": (
        an_empty_folder_gives_the_first_incarnation
    ),
    "connectors/test_file_sink.py::test_a_file_that_a_consumer_has_taken_is_committed_and_not_lost": (
        commits_look_for_their_target
    ),
    "connectors/test_file_sink.py::test_files_of_a_subtask_whose_input_has_ended_may_be_committed_again": (
        ended_subtasks_are_forgotten
    ),
    "runtime/test_standby.py::test_process_behind_another_one_takes_an_expired_lease_by_itself": (
        the_first_in_line_is_waited_for
    ),
    "runtime/test_relative_paths.py::"
    "test_a_function_that_changes_the_folder_moves_no_input_output_or_checkpoint": (
        output_follows_the_working_folder
    ),
    "runtime/test_job_identity.py::test_jobs_are_listed_beside_one_whose_record_or_folder_cannot_be_read": (
        one_missing_folder_hides_all_jobs
    ),
    "state/test_database.py::test_block_cache_ends_with_the_last_database": (
        block_caches_outlive_their_databases
    ),
}
"""By test below tests/engine, the defect that it must catch."""


CAUGHT: Final[set[str]] = set()
"""The tests below tests/engine of which a case has failed."""


def test_of(node_id: str) -> str:
    """Return which test below tests/engine a case belongs to."""
    return node_id.partition("[")[0].removeprefix("tests/engine/")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip the other cases of a test that has caught its defect."""
    if test_of(item.nodeid) in CAUGHT:
        pytest.skip("another case has caught the defect")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Plant the defect of a test while it runs."""
    plant = PLANTED.get(test_of(item.nodeid))
    if plant is None or not isinstance(item, pytest.Function):
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        plant(patch, item)
        return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note which defects are caught."""
    if report.when == "call" and report.failed:
        CAUGHT.add(test_of(report.nodeid))
