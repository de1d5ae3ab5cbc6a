"""A reader of a job's part files in an object store, in another process than the job, which always looks.

The rules this module lives by:

- As `server_watch.py`: directly, all the time, with the time after the look.
- A look is one list, which stores give as of one moment. A name that is missing from it, or whose object has
  another tag or length than before, is gone: what was committed neither disappears nor changes.
"""

from __future__ import annotations

import contextlib
from typing import Final

from onceproof.harness.systems.process.job_specification import TrialObjects
from onceproof.harness.systems.process.object_output import ListedObject, StoreReader, by_name
from onceproof.harness.systems.process.server_watch import ServerWatch
from onceproof.harness.systems.recording import event_log

SECONDS_BETWEEN_LOOKS: Final = 0.1


class ObjectWatch(ServerWatch):
    """Looks at the part files of a scenario."""

    def __init__(self, objects: TrialObjects) -> None:
        super().__init__()
        self.looks = 0
        """How often it has seen all part files."""
        self._reader = StoreReader(objects)
        self._seen: dict[str, ListedObject] = {}

    def look(self) -> None:
        """Look at all part files once. Raises what the client raises where the store does not answer."""
        found = by_name(self._reader.objects("output"))
        for name, each in found.items():
            before = self._seen.get(name)
            if before is None:
                self.note(event_log.ROWS_SEEN, name)
            elif before != each:
                self.note(event_log.ROWS_GONE, name)
        for name in self._seen.keys() - found.keys():
            self.note(event_log.ROWS_GONE, name)
        self._seen = found
        self.looks += 1

    def watch(self) -> None:
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

        while not self.ends.wait(SECONDS_BETWEEN_LOOKS):
            # The store may be away at any moment.
            with contextlib.suppress(BotoCoreError, ClientError, HTTPClientError):
                self.look()
