"""What a file sink does in its subtask where its base path is in an object store.

The rules of transactions, buckets and rolling are those of `file_sink_function.py`; those of the part files
are in `part_objects.py`. Here:

- A listed file is ``[name, bytes or OPEN, address, upload]``, with the bucket behind as for folders.
- A file is committed at the address where it was prepared, also by a job that writes elsewhere by now.
- Uploads that dead attempts have left are found by the marks in their keys and dropped at the next start, by
  the rule of two_phase. One that a request of a dead process begins later is left to the store's own rule
  for incomplete uploads.
- An error of the store is no reason to give up: the restart strategy decides.
- Where a consumer removes objects, the sink notes each commit in an object below ``.committed/`` while the
  upload still waits, and then completes the upload. So a restore that finds neither the object nor its upload
  knows whether it was committed. That costs five requests more for each file, so it is an option.
- The upload of a note belongs to a commit under way. One that is there at a start is dropped, also where
  the restored checkpoint lists the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from onceproof.engine.connectors.file_sink_function import FileSinkFunction, OpenPart, PartWriter
from onceproof.engine.connectors.part_files import (
    FURTHER,
    OPEN,
    FileSinkBroken,
    FileSinkFailed,
    Mark,
    Transaction,
    bucket_of,
    parts_of,
)
from onceproof.engine.connectors.part_objects import (
    LONGEST_KEY,
    PART_BYTES,
    PartObjectLost,
    PartObjectWriter,
    WrongAddress,
    listed_object,
    mark_of_object,
    object_folder,
    object_name,
)
from onceproof.engine.connectors.s3_calls import s3_calls
from onceproof.engine.connectors.two_phase import Recovery
from onceproof.engine.locations import scheme_of
from onceproof.engine.object_calls import ObjectCalls, ObjectInTheWay

NOTES: Final = ".committed"


class ObjectSinkFunction(FileSinkFunction):
    """Writes the part files of each transaction into an object store."""

    calls_of: Callable[[str], ObjectCalls] = staticmethod(s3_calls)
    """Returns the requests to a bucket of the store."""
    part_bytes = PART_BYTES
    notes_commits = False
    """Whether a commit is noted in an object of its own, for consumers that remove objects."""

    def new_part(self, number: int) -> Transaction:
        mark = Mark(self.owner, self.subtask, self.epoch, self.attempt)
        name = object_name(self._prefix, mark, number, self._suffix)
        return [name, OPEN, self._base_path, ["", "", []]]

    def create_file(self, listed: Transaction, bucket: str) -> PartWriter:
        """Begin the upload of a part file."""
        name, _, address, upload = listed[:FURTHER]
        folder = object_folder(address)
        key = folder.key_of(bucket, name)
        if len(key.encode()) > LONGEST_KEY:
            raise WrongAddress(f"{key} is longer than the {LONGEST_KEY} bytes of a key: choose shorter names")
        self._buckets_made.add(bucket)
        try:
            calls = self.calls_of(folder.bucket)
            if calls.find(key) is not None:
                raise FileSinkBroken(
                    f"part file {address}/{name} exists already, from an earlier run of the job with the same"
                    " checkpoint folder: move it away, or choose another folder"
                )
            token = calls.new_token()
            upload[:] = [calls.begin_upload(key, token), token, []]
        except FileSinkFailed:
            raise
        except OSError as error:
            raise self.failure(listed, "cannot be written", error) from error
        return PartObjectWriter(calls, key, upload, self.part_bytes)

    def finish_part(self, part: OpenPart) -> None:
        """Store the last part of a file; drop one that has no bytes."""
        super().finish_part(part)
        if part.listed[1] == 0:
            self._drop(part.listed)

    def make_durable(self, transaction: Transaction) -> None:
        """Do nothing: a part that is stored is durable."""

    def commit_part(self, transaction: Transaction) -> None:
        """Complete the upload of one file where it was prepared, unless that was done before."""
        self._check_kind(transaction)
        if transaction[1] == 0:
            return
        part = listed_object(*transaction[:FURTHER])
        folder = object_folder(transaction[2])
        key, note = folder.key_of(bucket_of(transaction), part.name), folder.key_of(NOTES, part.name)
        try:
            calls = self.calls_of(folder.bucket)
            if self.notes_commits and calls.has_upload(key, part.upload_id):
                self._note(calls, note)
            part.commit(calls, key)
        except PartObjectLost:
            if not self.notes_commits or calls.find(note) is None:
                raise
        except FileSinkFailed:
            raise
        except OSError as error:
            raise self.failure(transaction, "cannot be committed", error) from error

    def _note(self, calls: ObjectCalls, key: str) -> None:
        """Note durably that an upload, which still waits, is about to be completed."""
        if calls.find(key) is None:
            upload_id = calls.begin_upload(key, calls.new_token())
            with suppress(ObjectInTheWay):
                calls.complete_upload(key, upload_id, [calls.put_part(key, upload_id, 1, b"committed\n")])

    def all_committed(self) -> None:
        """Do nothing: an object store keeps no ledger."""

    def begins_afresh(self) -> None:
        """Do nothing: an object store keeps no ledger."""

    def abort(self, transaction: Transaction) -> None:
        """Drop the uploads that are this sink's."""
        for listed in list(parts_of(transaction)):
            self._check_kind(listed)
            if listed_object(*listed[:FURTHER]).owner == self.owner:
                self._drop(listed)

    def abort_unknown(self, recovery: Recovery) -> None:
        """Drop the uploads of this sink that no checkpoint lists."""
        folder = object_folder(self._base_path)
        notes, restored_id = folder.key_of(NOTES, ""), recovery.restored_checkpoint_id or 0
        try:
            calls = self.calls_of(folder.bucket)
            for upload in calls.uploads(folder.prefix):
                mark = mark_of_object(os.path.basename(upload.key))
                if mark is None:
                    continue
                epoch = max(mark.epoch, restored_id) if upload.key.startswith(notes) else mark.epoch
                if recovery.may_abort(mark.subtask, epoch, mark.attempt, mark.owner):
                    calls.abort_upload(upload.key, upload.upload_id)
        except OSError as error:
            raise FileSinkFailed(
                f"{self._base_path} of the file sink cannot be used: {error.strerror or error}:"
                " check the bucket, the address (AWS_ENDPOINT_URL), key and rights"
            ) from error

    def failure(self, transaction: Transaction, what: str, error: OSError) -> FileSinkFailed:
        """Return the error for a part file that cannot be written or committed."""
        place = "/".join([each for each in (transaction[2], bucket_of(transaction), transaction[0]) if each])
        return FileSinkFailed(
            f"part file {place} {what}: {error.strerror or error}: check the bucket, the address"
            " (AWS_ENDPOINT_URL), key and rights"
        )

    def _drop(self, listed: Transaction) -> None:
        """Abort the upload of a file, if it was begun."""
        name, _, address, upload = listed[:FURTHER]
        if not upload[0]:
            return
        folder = object_folder(address)
        try:
            self.calls_of(folder.bucket).abort_upload(folder.key_of(bucket_of(listed), name), upload[0])
        except OSError as error:
            raise self.failure(listed, "cannot be aborted", error) from error

    def _check_kind(self, listed: Transaction) -> None:
        """Raise FileSinkBroken for a file that waits in a folder."""
        address = listed[2] if len(listed) >= FURTHER else ""
        if not scheme_of(str(address)):
            raise FileSinkBroken(
                f"transaction {listed[0]!r} waits in a folder {address}, and this sink writes to"
                f" {self._base_path}: run the job with the folder as its base path once, and end it"
                " with a savepoint"
            )
