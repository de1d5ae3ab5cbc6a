"""Whether executors share the store of a campaign, found out before the first scenario.

The rules this module lives by:

- Each executor reads a file that the driver has written, and writes one that the driver must find. Otherwise
  a folder that only some machines share would lose scenarios, and say so after hours.
- Spark does not run a task on a machine of choice, so there are several tasks for each core. What a machine
  that joins later writes is acknowledged and verified as everything else.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from onceproof.engine.runtime.spark_session import SPARK_ERRORS
from onceproof.harness.campaign.file_stores import FileStore, FolderStore
from onceproof.harness.campaign.jobs import original_error
from onceproof.harness.trials.output_files import OutputUnwritable

TASKS_PER_CORE: Final = 2
_ANSWER: Final = pa.schema([("host", pa.string()), ("name", pa.string()), ("error", pa.string())])
_REMEDY: Final = "give --store an address that all machines reach, such as s3://BUCKET/PATH"


@dataclass(frozen=True, slots=True)
class _Probe:
    """The function that mapInArrow calls on executors."""

    store: FileStore
    token: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                name = f"{self.token}-{uuid4().hex[:12]}"
                error = self._try(name)
                yield pa.RecordBatch.from_pylist(
                    [{"host": socket.gethostname(), "name": name, "error": error}], schema=_ANSWER
                )

    def _try(self, name: str) -> str:
        try:
            self.store.read(self.token)
            self.store.write(name, b"")
        except FileNotFoundError:
            return "does not see what the driver has written there"
        except (OSError, ValueError) as error:
            return f"cannot use it: {' '.join(str(error).split())}"
        return ""


def probe(session: SparkSession, store: FileStore) -> None:
    """Check that driver and executors share a store. Raises OutputUnwritable, with the host that does not."""
    master = session.sparkContext.master or ""
    if isinstance(store, FolderStore) and (master == "local" or master.startswith("local[")):
        # Driver and executors are one machine.
        return
    token = f"probe-{uuid4().hex[:12]}"
    names = [token]
    try:
        store.write(token, b"probe")
        tasks = TASKS_PER_CORE * max(1, session.sparkContext.defaultParallelism)
        rows = session.range(0, tasks, 1, tasks)
        answers = rows.mapInArrow(_Probe(store, token), from_arrow_schema(_ANSWER)).collect()
        names += [answer["name"] for answer in answers]
        seen = set(store.names())
        for answer in answers:
            error = answer["error"]
            if not error and answer["name"] not in seen:
                error = "has written there what the driver does not see"
            if error:
                raise OutputUnwritable(f"{store.place}: the executor on {answer['host']} {error}: {_REMEDY}")
    except OSError as error:
        raise OutputUnwritable(
            f"{store.place}: cannot be written to: {error.strerror or error}: {_REMEDY}"
        ) from None
    except SPARK_ERRORS as error:
        raise original_error(error) from None
    finally:
        for name in names:
            _delete(store, name)


def _delete(store: FileStore, name: str) -> None:
    try:
        store.delete(name)
    except OSError:
        # The error before this one is raised, and no later campaign minds an empty file.
        return
