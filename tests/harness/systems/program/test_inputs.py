"""Inputs of programs: new files, sockets and HTTP in both directions, tables by SQLAlchemy."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceproof.harness.checkers.verdict import Verdict
from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.history import ROWS_FOUND
from onceproof.harness.model.scenario import Fault
from tests.harness.systems.program.programs import RECORDS, events_of, program, tried

pytestmark = pytest.mark.local_kill

KILL = Fault("kill_process", "committed", occurrence=2)
DONE = "[done]\nquiet_seconds = 300\nmost_seconds = 600\n"
OUTPUT = f'[output]\nkind = "files"\n{DONE}'
KEEPS = """
    import json, os, sys, time
    given, folder = sys.argv[1], sys.argv[2]
    def keep(line):
        # A file for each record: what comes again changes nothing.
        path = f"{folder}/{json.loads(line)['id']}.jsonl"
        if not os.path.exists(path):
            with open(folder + "/.new", "w") as file:
                file.write(line.strip() + "\\n")
            os.replace(folder + "/.new", path)
"""
"""Writes each record once, whatever it is given again."""
READS_NEW_FILES = (
    KEEPS
    + """
    seen = set()
    while True:
        for name in sorted(set(os.listdir(given)) - seen):
            if not name.startswith("."):
                seen.add(name)
                for line in open(f"{given}/{name}").read().splitlines():
                    keep(line)
        time.sleep(0.01)
"""
)
LISTENS = (
    KEEPS
    + """
    import socket
    host, port = given.split(":")
    connection, _ = socket.create_server((host, int(port))).accept()
    for line in connection.makefile():
        keep(line)
    time.sleep(600)
"""
)
POLLS = (
    KEEPS
    + """
    from urllib.request import urlopen
    while True:
        for split in json.load(urlopen(given)):
            for line in urlopen(f"{given}/{split}?from={len(os.listdir(folder))}"):
                keep(line.decode())
        time.sleep(0.01)
"""
)
IS_POSTED_TO = (
    KEEPS
    + """
    from http.server import BaseHTTPRequestHandler, HTTPServer
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            content = self.rfile.read(int(self.headers["Content-Length"])).decode()
            assert (self.path, self.headers["Source"]) == ("/records", "key k0"), (self.path, self.headers)
            keep(content)
            self.send_response(204)
            self.end_headers()
    host, port = given.removeprefix("http://").removesuffix("/records").split(":")
    HTTPServer((host, int(port)), Handler).serve_forever()
"""
)
READS_A_TABLE = (
    KEEPS
    + """
    import sqlite3
    while True:
        database = sqlite3.connect("app.db", timeout=60)
        for number, at in database.execute("SELECT id, at FROM " + given):
            keep(json.dumps({"id": number, "at": at}))
        database.close()
        time.sleep(0.01)
"""
)


def passes(path: Path, *faults: Fault) -> Verdict:
    history, verdict = tried(path, faults=faults)
    assert verdict.passed, verdict.violations
    assert sum(len(payload["rows"]) for _, payload in events_of(history, ROWS_FOUND)) == len(
        RECORDS["numbers"]
    )
    return verdict


def test_new_files_appear_whole_and_hold_several_records(tmp_path: Path) -> None:
    once = READS_NEW_FILES.replace("seen.add(name)", "seen.add(name); assert ready(f'{given}/{name}')")
    once = once.replace(
        "seen = set()", "ready = lambda path: len(open(path).readlines()) in (2, 4)\n    seen = set()"
    )
    passes(program(tmp_path, once, f'[input]\nkind = "new_files"\nrecords = 4\n{OUTPUT}'), KILL)


def test_the_harness_connects_to_the_port_of_each_start(tmp_path: Path) -> None:
    passes(program(tmp_path, LISTENS, f'[input]\nkind = "socket"\nconnects = "harness"\n{OUTPUT}'), KILL)


def test_host_and_port_stand_for_those_of_the_input(tmp_path: Path) -> None:
    path = program(tmp_path, LISTENS, f'[input]\nkind = "socket"\nconnects = "harness"\n{OUTPUT}')
    path.write_text(path.read_text().replace('"{input}"', '"{host}:{port}"'))
    passes(path)


def test_a_program_polls_records_over_http(tmp_path: Path) -> None:
    passes(program(tmp_path, POLLS, f'[input]\nkind = "http"\n{OUTPUT}'), KILL)


def test_records_are_posted_until_the_program_takes_them(tmp_path: Path) -> None:
    more = 'connects = "harness"\npath = "/records"\nheaders = { Source = "key {key}" }'
    passes(program(tmp_path, IS_POSTED_TO, f'[input]\nkind = "http"\n{more}\n{OUTPUT}'), KILL)


SQL = (
    '[input]\nkind = "sql"\nurl = "sqlite:///{folder}/app.db"\ntable = "given"\ntimestamp = "at"\n'
    f'create = ["CREATE TABLE {{input}} (id INTEGER, key TEXT, at INTEGER)"]\n{OUTPUT}'
)


def test_records_are_rows_of_a_table_that_sqlalchemy_reaches(tmp_path: Path) -> None:
    passes(program(tmp_path, READS_A_TABLE, SQL), KILL)


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("CREATE TABLE", "CREATE TABEL", r'input\.create\[0\]: near "TABEL": syntax error'),
        ("sqlite:", "sqlight:", r"input\.url: .*sqlight"),
    ],
)
def test_a_mistake_about_a_database_is_one_line(tmp_path: Path, before: str, after: str, line: str) -> None:
    path = program(tmp_path, READS_A_TABLE, SQL.replace(before, after))
    with pytest.raises(FamilyError, match=rf"job\.toml: {line}"):
        tried(path)
