"""Mutants of the history of a job: what a put or a deletion brings that is performed late."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.runtime import job_driver, recovery
from onceproof.engine.runtime.checkpoint_history import FoundRecord, HistoryStorage, JobHistory
from onceproof.engine.runtime.recovery import metadata_path
from onceproof.engine.runtime.restore_point import published_form
from onceproof.engine.runtime.starting_point import StartingPoint
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import SMALL_JOBS, Reached, mutant


@mutant(
    id="metadata-of-any-process-count",
    breaks="fencing",
    summary="a process goes on from metadata that appeared behind the end of the process which put them",
    families=SMALL_JOBS,
)
def metadata_of_any_process_count(reached: Reached) -> Iterator[None]:
    """The process in between did not find them: it went on from an older checkpoint."""
    counts = FoundRecord.counts

    def all_count(self: FoundRecord, metadata: CheckpointMetadata) -> bool:
        if not counts(self, metadata):
            reached()
        return True

    with replaced(FoundRecord, "counts", all_count):
        yield


@mutant(
    id="failed-metadata-are-not-void",
    breaks="liveness",
    summary="a checkpoint whose metadata had no answer is declined, and no record declares it void",
    families=SMALL_JOBS,
)
def failed_metadata_are_not_void(reached: Reached) -> Iterator[None]:
    """The metadata may appear, and the files of the checkpoint have been deleted."""

    def silent(self: JobHistory, metadata: CheckpointMetadata, error: OSError) -> None:
        reached()

    with replaced(JobHistory, "declare_void", silent):
        yield


@mutant(
    id="metadata-put-over-others",
    breaks="exactly_once",
    summary="metadata are put whether or not there are any, so a late put replaces those of a later process",
    families=SMALL_JOBS,
)
def metadata_put_over_others(reached: Reached) -> Iterator[None]:
    """The two checkpoints have one id, and the later process has committed its own."""

    def put(
        storage: HistoryStorage,
        history: JobHistory,
        metadata: CheckpointMetadata,
        begins_from: StartingPoint | None,
    ) -> None:
        path = metadata_path(metadata.checkpoint_id, metadata.kind)
        if storage.writes_may_be_late:
            reached()
        try:
            storage.write(path, published_form(metadata))  # type: ignore[attr-defined]
        except OSError as error:
            history.declare_void(metadata, error)
            raise
        if begins_from is not None:
            history.begin_from(begins_from)

    with replaced(job_driver, "publish_metadata", put):
        yield


@mutant(
    id="the-file-finished-decides",
    breaks="no_leaks",
    summary="whether the job has finished is read from its file alone, which an earlier deletion may remove",
    families=SMALL_JOBS,
)
def the_file_finished_decides(reached: Reached) -> Iterator[None]:
    """Each process deletes the file of an earlier end as it begins; the next start runs the job once more."""
    by_record = recovery.is_finished

    def by_file(paths: Sequence[str], begun: StartingPoint, found: FoundRecord | None) -> bool:
        finished = by_record(paths, begun, None)
        if finished != by_record(paths, begun, found):
            reached()
        return finished

    with replaced(recovery, "is_finished", by_file):
        yield
