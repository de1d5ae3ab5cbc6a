"""The requests of the file sink to S3, and to stores that speak as it does.

The rules this module lives by:

- Address, key and region are those that every S3 client takes: the variables ``AWS_...`` of the environment,
  ``~/.aws``, the role of the machine. Nothing of them is kept in a job or a checkpoint.
- A request gives up after seconds, because the restart strategy decides how long to go on.
- A store at an address of its own gets the bucket in the path, unless ``~/.aws/config`` says otherwise.
- No request waits for "100 Continue" before it sends its body: a connection that is lost in the headers of it
  holds botocore (1.43) up for ever, because it reads on at the end of the stream.
- The client takes an answer whose headers were cut off for a whole one without the rest of them. So an answer
  counts only with the field that each has, and an object without a token is asked for once more.
- A try to begin an upload that had no answer may have begun one, which no process can complete. If a later
  try begins another one, the first is looked for and dropped: no other writer has its key.
- A process makes its own client: connections are not inherited by forked children.
"""

from __future__ import annotations

import errno
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from onceproof.engine.extras import S3, require
from onceproof.engine.object_calls import FoundObject, FoundUpload, ObjectCalls, ObjectInTheWay, UploadMissing

SCHEMES: Final = frozenset(("s3", "s3a", "s3n"))
_TOKEN: Final = "onceproof-upload"
"""The name of the token among the metadata of an object."""
_CONNECT_S: Final = 3
_READ_S: Final = 20.0
_ATTEMPTS: Final = 2
_ABSENT: Final = frozenset(("404", "NoSuchKey", "NotFound"))
_IN_THE_WAY: Final = frozenset(("PreconditionFailed", "412"))

_making_a_client = threading.Lock()


def s3_calls(bucket: str, read_timeout_s: float = _READ_S) -> ObjectCalls:
    """Return the requests to a bucket. Raises ExtraMissing, OSError.

    Args:
        bucket: its name.
        read_timeout_s: after so many seconds without an answer a try of a request is given up.
    """
    with _making_a_client:
        return S3Calls(bucket, _client(os.getpid(), read_timeout_s))


@lru_cache(maxsize=1)
def _client(process_id: int, read_timeout_s: float) -> Any:
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
                read_timeout=read_timeout_s,
                retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
                **settings,
            ),
        )

    try:
        client = make()
        if ".amazonaws." not in client.meta.endpoint_url and not client.meta.config.s3:
            client = make(s3={"addressing_style": "path"})
    except (BotoCoreError, ValueError) as error:
        raise OSError(errno.EINVAL, _one_line(error)) from error
    client.meta.events.register_last("before-call.s3", _send_body_at_once)
    return client


def _send_body_at_once(params: Mapping[str, Any], **rest: object) -> None:
    """Take the header away by which a client waits for "100 Continue" (a handler of botocore)."""
    params["headers"].pop("Expect", None)


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
            for _ in range(2):
                found = self._ask(self._client.head_object, "ContentLength", Key=key)
                token = found.get("Metadata", {}).get(_TOKEN)
                if token is not None:
                    break
        except FileNotFoundError:
            return None
        return FoundObject(found["ContentLength"], token)

    def begin_upload(self, key: str, token: str) -> str:
        begun = self._ask(self._client.create_multipart_upload, "UploadId", Key=key, Metadata={_TOKEN: token})
        upload_id = str(begun["UploadId"])
        if begun["ResponseMetadata"].get("RetryAttempts"):
            for each in self.uploads(key):
                if each.key == key and each.upload_id != upload_id:
                    self.abort_upload(key, each.upload_id)
        return upload_id

    def put_part(self, key: str, upload_id: str, number: int, data: bytes) -> str:
        stored = self._ask(
            self._client.upload_part, "ETag", Key=key, UploadId=upload_id, PartNumber=number, Body=data
        )
        return str(stored["ETag"])

    def complete_upload(self, key: str, upload_id: str, tags: Sequence[str]) -> None:
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
        self._ask(
            self._client.complete_multipart_upload,
            "ETag",
            Key=key,
            UploadId=upload_id,
            MultipartUpload={"Parts": parts},
            IfNoneMatch="*",
        )

    def abort_upload(self, key: str, upload_id: str) -> None:
        try:
            self._ask(self._client.abort_multipart_upload, "", Key=key, UploadId=upload_id)
        except UploadMissing:
            return

    def has_upload(self, key: str, upload_id: str) -> bool:
        try:
            self._ask(self._client.list_parts, "UploadId", Key=key, UploadId=upload_id, MaxParts=1)
        except UploadMissing:
            return False
        return True

    def uploads(self, prefix: str) -> Iterator[FoundUpload]:
        behind: dict[str, str] = {}
        while True:
            page = self._ask(self._client.list_multipart_uploads, "IsTruncated", Prefix=prefix, **behind)
            for each in page.get("Uploads", ()):
                yield FoundUpload(each["Key"], each["UploadId"])
            if not page["IsTruncated"]:
                return
            behind = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}

    def _ask(self, request: Callable[..., Any], field: str, **parameters: Any) -> Any:
        """Make a request, and return its answer, which has a field; "": it has none.

        Raises OSError: FileNotFoundError, UploadMissing, ObjectInTheWay or another one.
        """
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

        try:
            answer = request(Bucket=self._bucket, **parameters)
            if field and field not in answer:
                raise OSError(errno.EREMOTEIO, "the answer was cut off")
            return answer
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
