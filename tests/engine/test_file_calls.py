"""Files of the engine in a process whose standard streams are closed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.patience import PATIENCE_SECONDS

PROGRAM = """
import os, sys
from contextlib import suppress
from onceproof.engine.file_calls import SystemFileCalls
closed = [int(each) for each in sys.argv[2]]
for each in closed:
    os.close(each)
calls = SystemFileCalls()
descriptor = calls.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
for each in (1, 2):
    with suppress(OSError):
        os.write(each, b"a line of a log")
calls.write(descriptor, b"rows")
calls.close(descriptor)
os._exit(0 if descriptor > 2 else 1)
"""


@pytest.mark.parametrize("closed", ["0", "1", "2", "12", "012"])
def test_what_is_printed_with_closed_streams_gets_into_no_file(tmp_path, closed):
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "part"), closed], check=True, timeout=PATIENCE_SECONDS
    )
    assert (tmp_path / "part").read_bytes() == b"rows"
