"""A client of an object store that looks at what a job leaves there, independent of the engine's own."""

from __future__ import annotations

import contextlib
import urllib.request
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from onceproof.engine.connectors import s3_calls
from onceproof.harness.services.object_store_server import BUCKET, ObjectStoreServer
from onceproof.harness.services.service import free_port
from tests.patience import PATIENCE_SECONDS


@cache
def client_of(server: ObjectStoreServer) -> Any:
    """Return a client of a server, with its key; a client takes half a second to make."""
    from botocore.config import Config
    from botocore.session import Session

    environment = server.environment
    return Session().create_client(
        "s3",
        endpoint_url=server.address,
        region_name=environment["AWS_DEFAULT_REGION"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        config=Config(s3={"addressing_style": "path"}, read_timeout=10),
    )


class ObjectReader:
    """Reads the objects and uploads below one folder of a bucket; names are relative to it."""

    def __init__(self, server: ObjectStoreServer, folder: str) -> None:
        self.address = f"s3://{BUCKET}/{folder}"
        self._server = server
        self._client = client_of(server)
        self._prefix = f"{folder}/"

    def objects(self) -> list[str]:
        """Return the names of the visible objects, sorted."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=self._prefix)
        found = [each["Key"] for page in pages for each in page.get("Contents", ())]
        return sorted(key.removeprefix(self._prefix) for key in found)

    def content(self, name: str) -> bytes:
        """Return the content of an object."""
        body = self._client.get_object(Bucket=BUCKET, Key=self._prefix + name)["Body"]
        data: bytes = body.read()
        return data

    def rows(self, *names: str) -> list[str]:
        """Return the lines of objects, by default of all, sorted."""
        found = names or self.objects()
        return sorted(line for name in found for line in self.content(name).decode().splitlines())

    def uploads(self) -> list[tuple[str, list[int]]]:
        """Return the uploads that are not completed: their names, and the sizes of their parts."""
        listed = self._client.list_multipart_uploads(Bucket=BUCKET, Prefix=self._prefix).get("Uploads", ())
        return [
            (each["Key"].removeprefix(self._prefix), self._part_sizes(each["Key"], each["UploadId"]))
            for each in listed
        ]

    def _part_sizes(self, key: str, upload_id: str) -> list[int]:
        parts = self._client.list_parts(Bucket=BUCKET, Key=key, UploadId=upload_id).get("Parts", ())
        return [each["Size"] for each in parts]

    def abort_uploads(self) -> None:
        """Abort all uploads, as a rule for incomplete ones does."""
        for each in self._client.list_multipart_uploads(Bucket=BUCKET, Prefix=self._prefix)["Uploads"]:
            self._client.abort_multipart_upload(Bucket=BUCKET, Key=each["Key"], UploadId=each["UploadId"])

    def put(self, name: str, data: bytes) -> None:
        """Put an object."""
        self._client.put_object(Bucket=BUCKET, Key=self._prefix + name, Body=data)

    def delete(self, name: str) -> None:
        """Delete an object."""
        self._client.delete_object(Bucket=BUCKET, Key=self._prefix + name)

    @contextlib.contextmanager
    def other_keys_refused(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Let the engine have a wrong key, which the server refuses meanwhile."""
        self._check_keys(from_request=0)
        try:
            with _engine_with(monkeypatch, AWS_SECRET_ACCESS_KEY="wrong"):
                yield
        finally:
            self._check_keys(from_request=1 << 60)

    def _check_keys(self, from_request: int) -> None:
        """Let moto, which takes any key at first, refuse those of requests from a number on."""
        if not self._server.survives_kills:
            request = urllib.request.Request(
                f"{self._server.address}/moto-api/reset-auth",
                data=str(from_request).encode(),
                headers={"Content-Type": "text/plain"},
            )
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS):
                return

    @contextlib.contextmanager
    def nothing_listening(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Let the engine ask where no server is."""
        with _engine_with(monkeypatch, AWS_ENDPOINT_URL=f"http://127.0.0.1:{free_port()}"):
            yield


@contextlib.contextmanager
def _engine_with(monkeypatch: pytest.MonkeyPatch, **environment: str) -> Iterator[None]:
    """Let the engine make a client from another environment."""
    s3_calls._client.cache_clear()
    try:
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            yield
    finally:
        s3_calls._client.cache_clear()
