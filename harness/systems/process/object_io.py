"""The sinks at s3:// of a job under trial in a real process, and how such a process reaches the store.

The rules this module lives by:

- The sinks are the engine's: lines of JSON that roll by size, time and count, or Parquet that rolls by count.
  Each logs its commits as the other ends do (`test_io.py`).
- A process finds the store by the variables that every S3 client reads. They are set before the first client
  is made, for checkpoints as well.
- Each upload is logged as soon as its id is known. One that is open in the end is left behind by the job only
  then: of an upload whose request had no answer no process knows, and the store's own rule drops it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Final

import fsspec

from onceproof.engine.api.data_types import DataTypes
from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.file_sink_function import PartWriter
from onceproof.engine.connectors.object_sink_function import ObjectSinkFunction
from onceproof.engine.connectors.part_files import OutputFileConfig
from onceproof.engine.connectors.part_transactions import Transaction
from onceproof.engine.connectors.rolling import RollingPolicy
from onceproof.engine.connectors.s3_calls import s3_calls
from onceproof.engine.formats.bulk_writers import BulkWriterFactory
from onceproof.engine.formats.parquet_files import ParquetBulkWriters
from onceproof.engine.types import TypeInformation
from onceproof.harness.systems.process.job_specification import Spec, TrialObjects
from onceproof.harness.systems.process.test_io import PREFIX, LoggedCommits, LogsPartFiles
from onceproof.harness.systems.recording import event_log
from onceproof.harness.systems.sinks import ROLLS_BY_COUNT, BucketsOfRows

LINES: Final = ".jsonl"
PARQUET: Final = ".parquet"
ROLLS: Final = RollingPolicy.default_rolling_policy(
    part_size=80, rollover_interval=100, inactivity_interval=40, part_rows=4
)
"""Rows have 9 to 14 bytes, so a file is complete by size or count; by time where faults hold the job up."""
CHECK_INTERVAL_MS: Final = 20
_TYPES: Final[Mapping[str, TypeInformation]] = {
    "STRING": DataTypes.STRING(),
    "BIGINT": DataTypes.BIGINT(),
    "INT": DataTypes.INT(),
    "DOUBLE": DataTypes.DOUBLE(),
    "BOOLEAN": DataTypes.BOOLEAN(),
}
"""By types of Spark DDL, those of columns."""


def reach_store(spec: Spec) -> None:
    """Let this process, and those that it forks, reach the object store of a specification, if it has one."""
    if spec.objects is None:
        return
    os.environ.update(spec.objects.environment_of_job)
    if spec.request_timeout_ms:
        fsspec.config.conf["s3"] = {
            "config_kwargs": {
                "read_timeout": spec.request_timeout_ms / 1000,
                "retries": {"mode": "standard", "total_max_attempts": 3},
            }
        }


class LoggingObjectSink(LogsPartFiles, ObjectSinkFunction):
    """The engine's file sink at an address, which logs its uploads and commits."""

    def __init__(
        self,
        address: str,
        form: Encoder | BulkWriterFactory,
        suffix: str,
        rolls: RollingPolicy,
        commits: LoggedCommits,
        request_timeout_ms: int,
    ) -> None:
        config = OutputFileConfig(PREFIX, suffix)
        super().__init__(address, form, config, rolls, BucketsOfRows(), CHECK_INTERVAL_MS)
        self._commits = commits
        self._given = (address, form, suffix, rolls, commits, request_timeout_ms)
        if request_timeout_ms:
            self.calls_of = partial(s3_calls, read_timeout_s=request_timeout_ms / 1000)

    def __deepcopy__(self, memo: object) -> LoggingObjectSink:
        return LoggingObjectSink(*self._given)

    def create_file(self, listed: Transaction, bucket: str) -> PartWriter:
        """Begin an upload, and log it."""
        writer = super().create_file(listed, bucket)
        [upload_id, *_] = listed[3]
        self._commits.log.write(event_log.UPLOAD_BEGUN, upload=upload_id)
        return writer


def make_object_sink(
    objects: TrialObjects, kind: str, column_types: Mapping[str, str], commits: LoggedCommits, timeout_ms: int
) -> LoggingObjectSink:
    """Return a new sink of a kind of part files; ``timeout_ms`` is that of a request, 0 the engine's own."""
    if kind == "parquet":
        columns = [DataTypes.FIELD(name, _TYPES[type_name]) for name, type_name in column_types.items()]
        writers = ParquetBulkWriters.for_row_type(DataTypes.ROW(columns))
        return LoggingObjectSink(objects.output, writers, PARQUET, ROLLS_BY_COUNT, commits, timeout_ms)
    form = Encoder.json_lines_encoder()
    return LoggingObjectSink(objects.output, form, LINES, ROLLS, commits, timeout_ms)
