"""The sinks at s3:// of a job under trial in a real process, and the readers of what they leave in the store.

Rules:

- The sinks are the engine's: lines of JSON that roll by size, time and count, or Parquet that rolls by count.
  Each logs its commits as the other ends do (`file_io.py`).
- A process finds the store by the variables that every S3 client reads. They are set before the first client
  is made, for checkpoints as well.
- Each upload is logged as soon as its id is known. One that is open in the end is left behind by the job only
  then: of an upload whose request had no answer no process knows, and the store's own rule drops it.
- Readers ask the store directly, by a client of their own, and ask again while it is away.
- A part file is a transaction of its own, with its writer in its name. One without such a name was written by
  no sink who may: its writer is unknown. An object is another one when its tag or its length has changed.
- A look of `ObjectWatch` is one list, which stores give as of one moment. A name that is missing from it, or
  whose object has changed, is gone: what was committed neither disappears nor changes.
"""

from __future__ import annotations

import contextlib
import io
import os
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from functools import cache, partial
from typing import Any, Final, NamedTuple, TypeVar

import fsspec
import msgspec

from onceproof.engine.api.data_types import DataTypes
from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.file_sink_function import PartWriter
from onceproof.engine.connectors.object_sink_function import ObjectSinkFunction
from onceproof.engine.connectors.part_files import Mark, OutputFileConfig, Transaction
from onceproof.engine.connectors.part_objects import mark_of_object, object_name
from onceproof.engine.connectors.rolling import RollingPolicy
from onceproof.engine.connectors.s3_calls import s3_calls
from onceproof.engine.formats.bulk_writers import BulkWriterFactory
from onceproof.engine.formats.parquet_files import ParquetBulkWriters
from onceproof.engine.types import TypeInformation
from onceproof.harness.model.history import Row, as_tuple
from onceproof.harness.systems.process.file_io import PREFIX, LoggedCommits, LogsPartFiles
from onceproof.harness.systems.process.job_specification import Spec, TrialObjects
from onceproof.harness.systems.process.visible_outputs import ServerWatch
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


NEIGHBOUR_PART: Final = object_name(PREFIX, Mark("0123456789abcdef", 0, 0, "1.1"), 0, LINES)
"""The part file that a job has begun which writes beside the one on trial."""
_SECONDS_TO_ANSWER: Final = 15.0
_SECONDS_BETWEEN_TRIES: Final = 0.02
_SECONDS_OF_A_REQUEST: Final = 5.0
_making_a_client: Final = threading.Lock()

_Answer = TypeVar("_Answer")


class ListedObject(NamedTuple):
    """A visible object."""

    key: str
    identity: tuple[str, int]
    """Its tag and length."""


class OpenUpload(NamedTuple):
    """An upload in parts that is neither completed nor dropped."""

    key: str
    upload_id: str


class StoreReader:
    """Asks for what a scenario has in the store."""

    def __init__(self, objects: TrialObjects) -> None:
        self._objects = objects
        self._client = _client(tuple(objects.environment.items()))

    def objects(self, folder: str) -> list[ListedObject]:
        """Return the objects below a folder of the scenario. Raises what the client raises."""
        listed: list[ListedObject] = []
        pages = self._client.get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=self._objects.bucket, Prefix=self._prefix(folder)):
            listed += [
                ListedObject(each["Key"], (each["ETag"], each["Size"])) for each in page.get("Contents", ())
            ]
        return listed

    def uploads(self, folder: str) -> list[OpenUpload]:
        """Return the open uploads below a folder of the scenario, a thousand at most."""
        page = self._client.list_multipart_uploads(Bucket=self._objects.bucket, Prefix=self._prefix(folder))
        return [OpenUpload(each["Key"], each["UploadId"]) for each in page.get("Uploads", ())]

    def content(self, key: str) -> bytes:
        """Return the content of an object."""
        body = self._client.get_object(Bucket=self._objects.bucket, Key=key)["Body"]
        data: bytes = body.read()
        return data

    def content_at(self, address: str) -> bytes:
        """Return the content of the object at an address; ask again. Raises OSError if it is not there."""
        from botocore.exceptions import ClientError

        bucket, _, key = address.partition("://")[2].partition("/")
        assert bucket == self._objects.bucket, f"{address} is in another bucket"
        try:
            return self.ask(lambda: self.content(key))
        except ClientError as error:
            raise OSError(f"{address} cannot be read: {error}") from error

    def ask(self, question: Callable[[], _Answer]) -> _Answer:
        """Return the answer of the store; ask again while it is being started, or is paused."""
        from botocore.exceptions import BotoCoreError, HTTPClientError

        deadline = time.monotonic() + _SECONDS_TO_ANSWER
        while True:
            try:
                return question()
            except (BotoCoreError, HTTPClientError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(_SECONDS_BETWEEN_TRIES)

    def drop(self) -> None:
        """Delete all that the scenario has in the store, its open uploads included."""
        bucket = self._objects.bucket
        for upload in self.uploads(""):
            self._client.abort_multipart_upload(Bucket=bucket, Key=upload.key, UploadId=upload.upload_id)
        for each in self.objects(""):
            self._client.delete_object(Bucket=bucket, Key=each.key)

    def put(self, folder: str, name: str, content: bytes) -> None:
        """Let an object appear."""
        self._client.put_object(
            Bucket=self._objects.bucket, Key=f"{self._prefix(folder)}{name}", Body=content
        )

    def begin_upload(self, folder: str, name: str) -> str:
        """Begin an upload that is none of the job's, and return its id."""
        begun = self._client.create_multipart_upload(
            Bucket=self._objects.bucket, Key=f"{self._prefix(folder)}{name}"
        )
        return str(begun["UploadId"])

    def _prefix(self, folder: str) -> str:
        return f"{self._objects.prefix}/{folder}/" if folder else f"{self._objects.prefix}/"


class ObjectOutput:
    """The part files in the store (`visible_outputs.Output`)."""

    def __init__(self, objects: TrialObjects) -> None:
        self._reader = StoreReader(objects)
        self._found: dict[str, ListedObject] = {}
        """By name, as the last look has shown them."""
        self._known: set[str] = set()
        """The ids of uploads that a process of the job knew of."""

    def upload_begun(self, upload_id: str) -> None:
        """Note that a process of the job knows of an upload."""
        self._known.add(upload_id)

    def owns(self, name: str) -> bool:
        """Return whether a name is that of an object, or of a part file that may become one."""
        return name in self._found or mark_of_object(name) is not None

    def names(self) -> list[str]:
        """Return the names of the objects, sorted."""
        self._found = by_name(self._reader.ask(lambda: self._reader.objects("output")))
        return sorted(self._found)

    def identity(self, name: str) -> Hashable | None:
        """Return tag and length; None if there is no such object."""
        if name not in self._found:
            self.names()
        found = self._found.get(name)
        return None if found is None else found.identity

    def rows(self, name: str) -> list[Row]:
        """Return the rows of a part file."""
        key = self._found[name].key
        content = self._reader.ask(lambda: self._reader.content(key))
        if name.endswith(PARQUET):
            return _parquet_rows(content)
        return [as_tuple(msgspec.json.decode(line)) for line in content.splitlines()]

    def writer(self, name: str) -> tuple[int, int, str]:
        """Return the writer in a name; (0, 0, "unknown") if no sink gives such names."""
        mark = mark_of_object(name)
        return (0, 0, "unknown") if mark is None else (mark.subtask, mark.epoch, mark.attempt)

    def waits(self, name: str) -> bool:
        """Return False: the sink writes rows before the commit."""
        return False

    def unfinished(self) -> list[str]:
        """Return the names of the open uploads that a process of the job knew of, or that are of no sink."""
        return [os.path.basename(each.key) for each in self._all_uploads() if self._is_left(each)]

    def is_neighbour_there(self) -> bool:
        """Return whether the upload of another job is still open."""
        return any(os.path.basename(each.key) == NEIGHBOUR_PART for each in self._all_uploads())

    def files(self, folder: str) -> list[str]:
        """Return the paths of the objects below a folder of the scenario, relative to it, sorted."""
        keys = [each.key for each in self._reader.ask(lambda: self._reader.objects(folder))]
        return sorted(key.partition(f"/{folder}/")[2] for key in keys)

    def _all_uploads(self) -> list[OpenUpload]:
        return self._reader.ask(lambda: self._reader.uploads(""))

    def _is_left(self, upload: OpenUpload) -> bool:
        if os.path.basename(upload.key) == NEIGHBOUR_PART:
            return False
        return upload.upload_id in self._known or mark_of_object(os.path.basename(upload.key)) is None


def by_name(listed: list[ListedObject]) -> dict[str, ListedObject]:
    """Return the objects by the last part of their keys, which no two part files have in common."""
    return {os.path.basename(each.key): each for each in listed}


def _parquet_rows(content: bytes) -> list[Row]:
    from pyarrow import parquet

    columns: Mapping[str, list[Any]] = parquet.read_table(io.BytesIO(content)).to_pydict()
    return list(zip(*columns.values(), strict=True))


def _client(environment: tuple[tuple[str, str], ...]) -> Any:
    with _making_a_client:
        return _make_client(environment)


@cache
def _make_client(environment: tuple[tuple[str, str], ...]) -> Any:
    from botocore.config import Config
    from botocore.session import Session

    known = dict(environment)
    return Session().create_client(
        "s3",
        endpoint_url=known["AWS_ENDPOINT_URL"],
        region_name=known["AWS_DEFAULT_REGION"],
        aws_access_key_id=known["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=known["AWS_SECRET_ACCESS_KEY"],
        config=Config(
            s3={"addressing_style": "path"},
            connect_timeout=_SECONDS_OF_A_REQUEST,
            read_timeout=_SECONDS_OF_A_REQUEST,
            retries={"mode": "standard", "total_max_attempts": 1},
        ),
    )


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
