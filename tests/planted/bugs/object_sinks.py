"""Mutants of the file sink: uploads and files that are completed, listed, dropped or called lost wrongly."""

from __future__ import annotations

import os
from collections.abc import Iterator

from onceproof.engine.connectors.commit_ledger import CommitLedger
from onceproof.engine.connectors.object_sink_function import NOTES, ObjectSinkFunction
from onceproof.engine.connectors.part_files import Mark, Transaction, parts_of
from onceproof.engine.connectors.part_objects import (
    PartObject,
    PartObjectLost,
    mark_of_object,
    object_folder,
)
from onceproof.engine.connectors.two_phase import Recovery
from onceproof.engine.object_calls import ObjectCalls
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant

FAMILIES = ("files_rolling",)


@mutant(
    id="multipart-completed-at-pre-commit",
    breaks="consistent_cut",
    summary="an upload is completed by the pre-commit, and visible before the checkpoint is complete",
    families=FAMILIES,
)
def completed_at_pre_commit(reached: Reached) -> Iterator[None]:
    """If the checkpoint never completes, the rows become visible a second time."""
    make_durable = ObjectSinkFunction.make_durable

    def completing(self: ObjectSinkFunction, transaction: Transaction) -> None:
        make_durable(self, transaction)
        reached()
        self.commit(transaction)

    with replaced(ObjectSinkFunction, "make_durable", completing):
        yield


@mutant(
    id="uploads-of-another-job-aborted",
    breaks="no_leaks",
    summary="a restart drops all uploads below its base path, also those of other jobs",
    families=FAMILIES,
)
def uploads_of_another_job_aborted(reached: Reached) -> Iterator[None]:
    """The other job's checkpoint lists what is gone now."""

    def sweep(self: ObjectSinkFunction, recovery: Recovery) -> None:
        folder = object_folder(self._base_path)
        calls = self.calls_of(folder.bucket)
        for upload in list(calls.uploads(folder.prefix)):
            reached()
            calls.abort_upload(upload.key, upload.upload_id)

    with replaced(ObjectSinkFunction, "abort_unknown", sweep):
        yield


@mutant(
    id="upload-id-not-in-the-committable",
    breaks="exactly_once",
    summary="a checkpoint lists an upload without its id, which only the process that began it knows",
    families=FAMILIES,
)
def upload_id_not_in_the_committable(reached: Reached) -> Iterator[None]:
    """After a restart the upload cannot be completed; it is taken for one without rows."""
    make_durable, commit_part = ObjectSinkFunction.make_durable, ObjectSinkFunction.commit_part

    def forgetting(self: ObjectSinkFunction, transaction: Transaction) -> None:
        make_durable(self, transaction)
        known = self.__dict__.setdefault("_known_ids", {})
        for part in parts_of(transaction):
            if part[1]:
                known[part[0]] = part[3][0]
                part[3][0] = ""

    def guessing(self: ObjectSinkFunction, part: Transaction) -> None:
        if part[1] and not part[3][0]:
            upload_id = self.__dict__.get("_known_ids", {}).get(part[0])
            if upload_id is None:
                reached()
                return
            part = [*part[:3], [upload_id, *part[3][1:]], *part[4:]]
        commit_part(self, part)

    with (
        replaced(ObjectSinkFunction, "make_durable", forgetting),
        replaced(ObjectSinkFunction, "commit_part", guessing),
    ):
        yield


@mutant(
    id="lost-answer-of-a-completion-is-a-lost-upload",
    breaks="no_error",
    summary="an upload that is gone is reported as lost without a look whether its object is there",
    families=FAMILIES,
)
def lost_answer_is_a_lost_upload(reached: Reached) -> Iterator[None]:
    """The commit that a restart repeats finds no upload, because it was completed before."""
    commit = PartObject.commit

    def not_looking(self: PartObject, calls: ObjectCalls, key: str) -> None:
        if not calls.has_upload(key, self.upload_id):
            reached()
            self._check(None, key)
        commit(self, calls, key)

    with replaced(PartObject, "commit", not_looking):
        yield


@mutant(
    id="object-that-was-taken-away-is-lost",
    breaks="no_error",
    summary="a repeated commit finds neither object nor upload, and asks no note whether it was committed",
    families=("files_rolling", "objects_rolling"),
)
def object_that_was_taken_away_is_lost(reached: Reached) -> Iterator[None]:
    """A consumer has taken the object away since, and the job can never be restarted."""
    commit_part = ObjectSinkFunction.commit_part

    def not_asking(self: ObjectSinkFunction, part: Transaction) -> None:
        notes, self.notes_commits = self.notes_commits, False
        try:
            commit_part(self, part)
        except PartObjectLost:
            if notes:
                reached()
            raise
        finally:
            self.notes_commits = notes

    with replaced(ObjectSinkFunction, "commit_part", not_asking):
        yield


@mutant(
    id="upload-of-a-note-is-left",
    breaks="no_leaks",
    summary="a restart leaves the uploads of notes of commits whose files the restored checkpoint lists",
    families=("files_rolling", "objects_rolling"),
)
def upload_of_a_note_is_left(reached: Reached) -> Iterator[None]:
    """They are taken for uploads that the checkpoint needs, and nothing ever drops them."""

    def sweep(self: ObjectSinkFunction, recovery: Recovery) -> None:
        folder = object_folder(self._base_path)
        calls = self.calls_of(folder.bucket)
        for upload in list(calls.uploads(folder.prefix)):
            mark = mark_of_object(os.path.basename(upload.key))
            if mark and recovery.may_abort(mark.subtask, mark.epoch, mark.attempt, mark.owner):
                calls.abort_upload(upload.key, upload.upload_id)
            elif mark and mark.owner == recovery.owner and f"/{NOTES}/" in upload.key:
                reached()

    with replaced(ObjectSinkFunction, "abort_unknown", sweep):
        yield


@mutant(
    id="file-that-was-taken-away-is-lost",
    breaks="no_error",
    summary="a commit looks for the visible file, and takes one that a consumer has moved for lost",
    families=FAMILIES,
)
def file_that_was_taken_away_is_lost(reached: Reached) -> Iterator[None]:
    """The ledger is not asked, and the job can never be restarted."""
    sound = CommitLedger.has

    def unknown(self: CommitLedger, folder: str, mark: Mark, number: int) -> bool:
        if sound(self, folder, mark, number):
            reached()
        return False

    with replaced(CommitLedger, "has", unknown):
        yield
