"""A sink of part files that become visible whole, exactly once (PyFlink: FileSink).

`file_sink_function.py` has the rules by which the files are written and committed, `part_files.py` those of
their names, `buckets.py` and `rolling.py` when and where a new one begins.
"""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from typing import Any, Self

from onceproof.engine.connectors.buckets import BucketAssigner
from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.file_sink_function import (
    CHECK_INTERVAL_MS,
    IN_BASE_PATH,
    ON_CHECKPOINT,
    FileSinkFunction,
)
from onceproof.engine.connectors.object_sink_function import ObjectSinkFunction
from onceproof.engine.connectors.part_files import OutputFileConfig
from onceproof.engine.connectors.part_objects import WrongAddress, checked_affixes, object_folder
from onceproof.engine.connectors.rolling import OnCheckpointRollingPolicy, RollingPolicy
from onceproof.engine.connectors.s3_calls import SCHEMES
from onceproof.engine.connectors.sink import Sink
from onceproof.engine.formats.bulk_writers import BulkWriterFactory
from onceproof.engine.locations import location, scheme_of
from onceproof.engine.types.information import TypeInformation


def base_path_of(text: str | os.PathLike[str]) -> str:
    """Return the place of the base path that a user gave. Raises WrongAddress if it cannot be written to."""
    path = os.fspath(text)
    scheme = scheme_of(path)
    if not scheme:
        return location(path)
    if scheme not in SCHEMES:
        raise WrongAddress(
            f"the file sink cannot write to {path}: it knows folders and s3://; mount {scheme}:// as a folder"
        )
    address = location(path)
    object_folder(address)
    return address


class FileSink(Sink):
    """Writes rows into part files below one folder, exactly once (PyFlink: FileSink).

    Each subtask begins a new file with each checkpoint. Build one with ``FileSink.for_row_format``.
    """

    def __init__(
        self,
        base_path: str,
        form: Encoder | BulkWriterFactory,
        output_file_config: OutputFileConfig,
        rolling_policy: RollingPolicy = ON_CHECKPOINT,
        bucket_assigner: BucketAssigner = IN_BASE_PATH,
        check_interval_ms: int = CHECK_INTERVAL_MS,
        *,
        has_consumed_objects: bool = False,
    ) -> None:
        self._has_consumed_objects = has_consumed_objects
        self.base_path = base_path
        self._form = form
        self._output_file_config = output_file_config
        self._rolling_policy = rolling_policy
        self._bucket_assigner = bucket_assigner
        self._check_interval_ms = check_interval_ms

    @staticmethod
    def for_row_format(base_path: str, encoder: Encoder) -> FileSink.RowFormatBuilder:
        """Return a builder of a sink that writes one row for each value.

        Args:
            base_path: the folder of the part files, or an address such as ``s3://bucket/words``.
            encoder: converts values into bytes.
        """
        return FileSink.RowFormatBuilder(base_path, encoder)

    @staticmethod
    def for_bulk_format(base_path: str, writer_factory: BulkWriterFactory) -> FileSink.BulkFormatBuilder:
        """Return a builder of a sink of files that are whole only at their end, such as Parquet.

        Args:
            base_path: the folder of the part files, or an address such as ``s3://bucket/words``.
            writer_factory: makes the writer of each file, such as ParquetBulkWriters.for_row_type().

        Raises:
            TypeError: it is not a BulkWriterFactory.
        """
        if not isinstance(writer_factory, BulkWriterFactory):
            raise TypeError(
                f"{writer_factory!r} is not a BulkWriterFactory, such as ParquetBulkWriters.for_row_type(...)"
            )
        return FileSink.BulkFormatBuilder(base_path, writer_factory)

    def for_type(self, value_type: TypeInformation | None) -> FileSink:
        """Return a sink whose encoder knows the declared type of the rows."""
        if not isinstance(self._form, Encoder):
            return self
        typed = copy.copy(self)
        typed._form = self._form.for_type(value_type)
        return typed

    def create_function(self) -> FileSinkFunction:
        """Return a function for one subtask."""
        kind = ObjectSinkFunction if scheme_of(self.base_path) else FileSinkFunction
        function = kind(
            self.base_path,
            self._form,
            self._output_file_config,
            self._rolling_policy,
            self._bucket_assigner,
            self._check_interval_ms,
        )
        if isinstance(function, ObjectSinkFunction):
            function.notes_commits = self._has_consumed_objects
        return function

    class BaseBuilder(ABC):
        """What the builders of both kinds of formats set (PyFlink: FileSink.BaseBuilder)."""

        def __init__(self, base_path: str, form: Encoder | BulkWriterFactory) -> None:
            self._base_path = base_path_of(base_path)
            self._form = form
            self._output_file_config = OutputFileConfig.builder().build()
            self._rolling_policy: RollingPolicy = ON_CHECKPOINT
            self._bucket_assigner: BucketAssigner = IN_BASE_PATH
            self._check_interval_ms = CHECK_INTERVAL_MS
            self._has_consumed_objects = False

        @abstractmethod
        def with_rolling_policy(self, rolling_policy: Any) -> Self:
            """Set when to begin new files between checkpoints."""

        def with_bucket_assigner(self, bucket_assigner: BucketAssigner) -> Self:
            """Set into which folder below the base path a row goes; by default all go to the base path.

            Raises:
                TypeError: it is not a BucketAssigner.
            """
            if not isinstance(bucket_assigner, BucketAssigner):
                raise TypeError(
                    f"{bucket_assigner!r} is not a BucketAssigner, such as"
                    " BucketAssigner.date_time_bucket_assigner()"
                )
            self._bucket_assigner = bucket_assigner
            return self

        def with_bucket_check_interval(self, interval: int) -> Self:
            """Set how often the rolling policy is asked about files that get no rows.

            Args:
                interval: in milliseconds; by default a minute.

            Raises:
                ValueError: the interval is not above 0.
            """
            if type(interval) is not int or interval < 1:
                raise ValueError(f"the bucket check interval is {interval!r}: give a whole number above 0")
            self._check_interval_ms = interval
            return self

        def with_consumed_objects(self, is_consumed: bool = True) -> Self:
            """Set that a consumer moves or deletes objects at s3:// (ours); in a folder it always may.

            Each commit is noted in an object below ``.committed/``, so that a restore does not take an object
            that is gone for lost.
            """
            self._has_consumed_objects = is_consumed
            return self

        def with_output_file_config(self, output_file_config: OutputFileConfig) -> Self:
            """Set the names of part files."""
            self._output_file_config = output_file_config
            return self

        def build(self) -> FileSink:
            """Return the sink."""
            config = self._output_file_config
            return FileSink(
                self._base_path,
                self._form,
                checked_affixes(config) if scheme_of(self._base_path) else config,
                self._rolling_policy,
                self._bucket_assigner,
                self._check_interval_ms,
                has_consumed_objects=self._has_consumed_objects,
            )

    class RowFormatBuilder(BaseBuilder):
        """Builds a FileSink of rows one after another (PyFlink: FileSink.RowFormatBuilder)."""

        def with_rolling_policy(self, rolling_policy: RollingPolicy) -> Self:
            """Set when to begin new files between checkpoints; by default never.

            Raises:
                TypeError: it is not a RollingPolicy.
            """
            if not isinstance(rolling_policy, RollingPolicy):
                raise TypeError(
                    f"{rolling_policy!r} is not a RollingPolicy, such as"
                    " RollingPolicy.default_rolling_policy()"
                )
            self._rolling_policy = rolling_policy
            return self

    class BulkFormatBuilder(BaseBuilder):
        """Builds a FileSink of files that are whole at their end (PyFlink: FileSink.BulkFormatBuilder)."""

        def with_rolling_policy(self, rolling_policy: OnCheckpointRollingPolicy) -> Self:
            """Take the policy that there is for such files: a new one with each checkpoint or after rows.

            Raises:
                TypeError: it is another policy.
            """
            if not isinstance(rolling_policy, OnCheckpointRollingPolicy):
                raise TypeError(
                    f"{rolling_policy!r} cannot be used with a bulk format, whose files are whole only at"
                    " their end: give RollingPolicy.on_checkpoint_rolling_policy()"
                )
            self._rolling_policy = rolling_policy
            return self
