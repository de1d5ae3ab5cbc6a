"""A driver that logs the savepoints which its users ask for.

A savepoint that ends the job is one of its checkpoints: it is logged as such before what it lists is
committed. One that does not is logged by a name of its own, since no restart of the job begins from it. Both
lie in a folder of their user, where all their files must stay.
"""

from __future__ import annotations

from onceproof.engine.checkpoint.events import RequestResolved
from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.messages import SAVEPOINT, checkpoint_folder
from onceproof.engine.runtime.mounted_storage import MountedStorage
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.recording.event_logging_driver import EventLoggingDriver, checkpoint_entry


class LoggedRequests(EventLoggingDriver):
    """Logs each savepoint of a request once it is complete."""

    _savepoint: CheckpointMetadata | None = None

    def metadata_published(self, checkpoint_id: int) -> None:
        """Keep the metadata of a savepoint, to log that it is complete."""
        pending = self.master.coordinator.pending[checkpoint_id]
        if pending.number:
            self._savepoint = pending.published
        super().metadata_published(checkpoint_id)

    def request_resolved(self, effect: RequestResolved) -> None:
        """Log the savepoint of a request, and where it lies."""
        super().request_resolved(effect)
        savepoint = self._savepoint
        if effect.checkpoint_id is None or savepoint is None:
            return
        ends_job = savepoint.kind != SAVEPOINT
        kind = event_log.CHECKPOINT_COMPLETED if ends_job else event_log.SAVEPOINT_COMPLETED
        storage = self.storage
        assert isinstance(storage, MountedStorage)
        place = storage.mounts[checkpoint_folder(savepoint.checkpoint_id, savepoint.kind)]
        self.log.write(kind, checkpoint=checkpoint_entry(savepoint), folder=[place])
