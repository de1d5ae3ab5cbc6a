"""The object store that families ask for, with a place of its own for each scenario.

The rules this module lives by:

- As `trial_server.py`: one for a system, struck by faults, and gone with the process that has started it.
- A store is killed only if its objects survive that (`object_store_server.py`): no real store loses them as
  it is started again. Pauses and cuts strike every store.
- Another job has an upload open beside the part files of the job on trial, and its mark looks like those of
  that job but for the owner. It must still be there in the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onceproof.harness.services.object_store_server import BUCKET, ObjectStoreServer
from onceproof.harness.services.service import LOOPBACK
from onceproof.harness.systems.process.job_specification import TrialObjects
from onceproof.harness.systems.process.trial_server import TrialServer


class TrialObjectStore(TrialServer[ObjectStoreServer]):
    """An object store for scenarios."""

    name = "s3"

    def new_server(self, folder: Path) -> ObjectStoreServer:
        return ObjectStoreServer(folder, dies_with_parent=True)

    @property
    def survives_kills(self) -> bool:
        """Whether the objects are still there after a kill of the store that is used, or would be."""
        return (self._server or self.new_server(Path())).survives_kills

    @contextmanager
    def place(self) -> Iterator[TrialObjects]:
        """Yield a place without objects; what is there in the end is deleted."""
        # It imports a client, which only some families need.
        from onceproof.harness.systems.process.object_output import NEIGHBOUR_PART, StoreReader

        server, struck = self.server, self.struck
        environment = server.environment
        through_proxy = {**environment, "AWS_ENDPOINT_URL": f"http://{LOOPBACK}:{struck.port}"}
        objects = TrialObjects(BUCKET, self.next_name(), environment, through_proxy)
        reader = StoreReader(objects)
        reader.begin_upload("output", NEIGHBOUR_PART)
        try:
            yield objects
        finally:
            reader.ask(reader.drop)
