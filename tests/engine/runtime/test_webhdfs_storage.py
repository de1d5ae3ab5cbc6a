"""Checkpoints at webhdfs://, against a stand-in that answers as a real NameNode has been seen to.

`trials_on_webhdfs.py` makes the same calls to a real HDFS, and races and kills there.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from onceproof.engine.runtime.mounted_storage import open_storage
from onceproof.engine.runtime.storage import MissingFile, StorageError

PREFIX = "/webhdfs/v1"


class NameNode(BaseHTTPRequestHandler):
    """Files and folders in a dictionary; None is a folder."""

    address: str
    entries: dict[str, bytes | None]
    log: list[str]
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: Any) -> None:
        return

    def answer(self, code: int, content: Any = None, **headers: str) -> None:
        data = (
            b""
            if content is None
            else content
            if isinstance(content, bytes)
            else json.dumps(content).encode()
        )
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, code: int, exception: str, message: str = "no") -> None:
        self.answer(code, {"RemoteException": {"exception": exception, "message": message}})

    def handle_request(self) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path.removeprefix(PREFIX)).rstrip("/")
        given = {name: values[0] for name, values in parse_qs(url.query).items()}
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.log.append(f"{given['op']} {path.rpartition('/')[2]}")
        getattr(self, f"op_{given['op'].lower()}")(path, given, body)

    do_GET = do_PUT = do_POST = do_DELETE = handle_request  # noqa: N815

    def op_getfilestatus(self, path: str, given: dict[str, str], body: bytes) -> None:
        if path not in self.entries:
            self.refuse(404, "FileNotFoundException")
            return
        self.answer(200, {"FileStatus": self.status(path)})

    def status(self, path: str) -> dict[str, Any]:
        data = self.entries[path]
        kind = "DIRECTORY" if data is None else "FILE"
        suffix = path.rpartition("/")[2]
        return {"type": kind, "length": len(data or b""), "pathSuffix": suffix, "modificationTime": 7}

    def op_liststatus(self, path: str, given: dict[str, str], body: bytes) -> None:
        if path not in self.entries:
            self.refuse(404, "FileNotFoundException")
            return
        below = [each for each in self.entries if each.rpartition("/")[0] == path and each != path]
        self.answer(200, {"FileStatuses": {"FileStatus": [self.status(each) for each in sorted(below)]}})

    def op_create(self, path: str, given: dict[str, str], body: bytes) -> None:
        if "step" not in given:
            at = f"http://{self.headers['Host']}{self.path}&step=2"
            self.answer(307, Location=at)
            return
        parts = path.split("/")
        for number in range(1, len(parts)):
            self.entries.setdefault("/".join(parts[:number]), None)
        self.entries[path] = body
        self.answer(201)

    def op_append(self, path: str, given: dict[str, str], body: bytes) -> None:
        if "step" not in given:
            self.answer(307, Location=f"http://{self.headers['Host']}{self.path}&step=2")
            return
        self.entries[path] = (self.entries[path] or b"") + body
        self.answer(200)

    def op_open(self, path: str, given: dict[str, str], body: bytes) -> None:
        begin = int(given.get("offset", 0))
        data = self.entries[path]
        assert data is not None
        self.answer(200, data[begin : begin + int(given.get("length", len(data)))])

    def op_rename(self, path: str, given: dict[str, str], body: bytes) -> None:
        target = given["destination"]
        if target in self.entries and given["renameoptions"] != "OVERWRITE":
            message = f"rename destination {target} already exists"
            self.refuse(403, "FileAlreadyExistsException", message)
            return
        self.entries[target] = self.entries.pop(path)
        self.answer(200)

    def op_delete(self, path: str, given: dict[str, str], body: bytes) -> None:
        if any(each.startswith(f"{path}/") for each in self.entries):
            self.refuse(403, "PathIsNotEmptyDirectoryException")
            return
        self.answer(200, {"boolean": path in self.entries})
        self.entries.pop(path, None)


@pytest.fixture
def name_node() -> Iterator[type[NameNode]]:
    class Own(NameNode):
        pass

    Own.entries, Own.log = {"": None}, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Own)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    Own.address = f"webhdfs://root@127.0.0.1:{server.server_port}"
    yield Own
    server.shutdown()
    server.server_close()


def check_calls(address: str) -> None:
    """Make the calls of checkpoints at an address where there is nothing yet."""
    storage = open_storage(address)
    assert storage.list("") == []
    assert storage.create_exclusive("claim-1", b"first")
    assert not storage.create_exclusive("claim-1", b"second")
    assert storage.create_exclusive("claim-2")
    assert storage.read("claim-1") == b"first"
    assert storage.read("claim-2") == b""
    for data in (b"one", b"another one"):
        storage.publish("chk-1/_metadata", data)
        assert storage.read("chk-1/_metadata") == data
    storage.write("chk-1/deep/a", b"deep")
    assert storage.list("") == ["chk-1/_metadata", "chk-1/deep/a", "claim-1", "claim-2"]
    assert storage.list("chk-1/d") == ["chk-1/deep/a"]
    assert storage.exists("chk-1/_metadata")
    assert not storage.exists("chk-1")
    assert not storage.exists("chk-2/_metadata")
    with pytest.raises(MissingFile, match=r"chk-9/a .*restore another checkpoint"):
        storage.read("chk-9/a")
    for _ in range(2):
        storage.delete("chk-1/deep/a")
    assert not storage.exists("chk-1/deep")
    assert storage.list("") == ["chk-1/_metadata", "claim-1", "claim-2"]


def test_storage_supports_the_calls_of_checkpoints(name_node: type[NameNode]) -> None:
    check_calls(f"{name_node.address}/jobs/words")
    assert "/jobs/words/chk-1/deep" not in name_node.entries
    assert "/jobs/words/chk-1" in name_node.entries


def test_file_appears_under_its_name_by_one_rename_and_no_other_is_left(name_node: type[NameNode]) -> None:
    storage = open_storage(f"{name_node.address}/jobs")
    name_node.log.clear()
    assert storage.create_exclusive("claim", b"mine")
    assert not [line for line in name_node.log if line.endswith(" claim")]
    assert [line.split()[0] for line in name_node.log][-1] == "RENAME"
    assert not storage.create_exclusive("claim", b"yours")
    assert sorted(path for path, data in name_node.entries.items() if data is not None) == ["/jobs/claim"]


def test_local_file_is_uploaded(name_node: type[NameNode], tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"table")
    storage = open_storage(f"{name_node.address}/jobs")
    storage.adopt("shared/a", str(tmp_path / "table"), "shared/earlier")
    assert storage.read("shared/a") == b"table"


def test_name_node_that_is_away_is_an_error_of_one_line() -> None:
    storage = open_storage("webhdfs://127.0.0.1:9/jobs")
    with pytest.raises(
        StorageError, match=r"webhdfs://127.0.0.1:9/jobs/a cannot be written: .*check address"
    ):
        storage.write("a", b"")


def test_hdfs_without_the_web_interface_is_refused_with_the_address_to_use() -> None:
    with pytest.raises(
        StorageError, match=r"^checkpoint folder hdfs://n/c: .*write webhdfs://HOST:PORT/PATH"
    ):
        open_storage("hdfs://n/c")
