"""The requests of the file sink to S3, and to stores that speak as it does.

The rules this module lives by:

- Address, key and region are those that every S3 client takes: the variables ``AWS_...`` of the environment,
  ``~/.aws``, the role of the machine. Nothing of them is kept in a job or a checkpoint.
- A request gives up after seconds, because the restart strategy decides how long to go on.
- A store at an address of its own gets the bucket in the path, unless ``~/.aws/config`` says otherwise.
- A process makes its own client: connections are not inherited by forked children.
"""

from __future__ import annotations

import errno
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

from onceproof.engine.extras import S3, require
from onceproof.engine.object_calls import FoundObject, FoundUpload, ObjectCalls, ObjectInTheWay, UploadMissing

SCHEMES: Final = frozenset(("s3", "s3a", "s3n"))
_TOKEN: Final = "onceproof-upload"
"""The name of the token among the metadata of an object."""
_CONNECT_S: Final = 3
_READ_S: Final = 20
_ATTEMPTS: Final = 2
_ABSENT: Final = frozenset(("404", "NoSuchKey", "NotFound"))
_IN_THE_WAY: Final = frozenset(("PreconditionFailed", "412"))

_Answer = TypeVar("_Answer")
_making_a_client = threading.Lock()


def s3_calls(bucket: str) -> ObjectCalls:
    """Return the requests to a bucket. Raises ExtraMissing, OSError."""
    with _making_a_client:
        return S3Calls(bucket, _client(os.getpid()))


@lru_cache(maxsize=1)
def _client(process_id: int) -> Any:
    """Return the client of this process."""
    require("the file sink at s3://", S3)
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    def make(**settings: Any) -> Any:
        return Session().create_client(
            "s3",
            config=Config(
                connect_timeout=_CONNECT_S,
                read_timeout=_READ_S,
                retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
                **settings,
            ),
        )

    try:
        client = make()
        if ".amazonaws." in client.meta.endpoint_url or client.meta.config.s3:
            return client
        return make(s3={"addressing_style": "path"})
    except (BotoCoreError, ValueError) as error:
        raise OSError(errno.EINVAL, _one_line(error)) from error


class S3Calls:
    """The requests to one bucket of S3 (`engine/object_calls.py`)."""

    def __init__(self, bucket: str, client: Any) -> None:
        self._bucket = bucket
        self._client = client

    def new_token(self) -> str:
        """Return 16 random hexadecimal digits."""
        return secrets.token_hex(8)

    def find(self, key: str) -> FoundObject | None:
        try:
            found = self._ask(self._client.head_object, Key=key)
        except FileNotFoundError:
            return None
        return FoundObject(found["ContentLength"], found.get("Metadata", {}).get(_TOKEN))

    def begin_upload(self, key: str, token: str) -> str:
        begun = self._ask(self._client.create_multipart_upload, Key=key, Metadata={_TOKEN: token})
        return str(begun["UploadId"])

    def put_part(self, key: str, upload_id: str, number: int, data: bytes) -> str:
        stored = self._ask(
            self._client.upload_part, Key=key, UploadId=upload_id, PartNumber=number, Body=data
        )
        return str(stored["ETag"])

    def complete_upload(self, key: str, upload_id: str, tags: Sequence[str]) -> None:
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
        self._ask(
            self._client.complete_multipart_upload,
            Key=key,
            UploadId=upload_id,
            MultipartUpload={"Parts": parts},
            IfNoneMatch="*",
        )

    def abort_upload(self, key: str, upload_id: str) -> None:
        try:
            self._ask(self._client.abort_multipart_upload, Key=key, UploadId=upload_id)
        except UploadMissing:
            return

    def has_upload(self, key: str, upload_id: str) -> bool:
        try:
            self._ask(self._client.list_parts, Key=key, UploadId=upload_id, MaxParts=1)
        except UploadMissing:
            return False
        return True

    def uploads(self, prefix: str) -> Iterator[FoundUpload]:
        behind: dict[str, str] = {}
        while True:
            page = self._ask(self._client.list_multipart_uploads, Prefix=prefix, **behind)
            for each in page.get("Uploads", ()):
                yield FoundUpload(each["Key"], each["UploadId"])
            if not page.get("IsTruncated"):
                return
            behind = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}

    def _ask(self, request: Callable[..., _Answer], **parameters: Any) -> _Answer:
        """Make a request. Raises OSError: FileNotFoundError, UploadMissing, ObjectInTheWay or another one."""
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

        try:
            return request(Bucket=self._bucket, **parameters)
        except ClientError as error:
            said = error.response.get("Error", {})
            code = str(said.get("Code", ""))
            reason = _one_line(said.get("Message") or code)
            if code == "NoSuchUpload":
                raise UploadMissing(errno.ENOENT, reason) from error
            if code in _IN_THE_WAY:
                raise ObjectInTheWay(errno.EEXIST, reason) from error
            if code in _ABSENT:
                raise FileNotFoundError(errno.ENOENT, reason) from error
            raise OSError(errno.EREMOTEIO, f"{code}: {reason}" if code not in reason else reason) from error
        except (BotoCoreError, HTTPClientError, ValueError) as error:
            raise OSError(errno.EREMOTEIO, _one_line(error)) from error


def _one_line(said: object) -> str:
    return " ".join(str(said).split()).rstrip(".")
