"""A job that reads each bulk format is killed in the middle of the files and ends with exact rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE_SECONDS

PROGRAM = Path(__file__).with_name("bulk_job.py")
KILLS = 2


def test_each_bulk_format_is_read_once_through_kills_in_the_middle_of_a_file(tmp_path):
    command = [sys.executable, str(PROGRAM), str(tmp_path), str(KILLS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout.splitlines()[-1])
    formats = {"avro", "parquet", "avro-parquet", "csv"}
    assert len(result["killed"]) == KILLS
    for counts in result["killed"]:
        assert set(counts) == formats
        assert all(0 < count < 3000 for count in counts.values()), counts
    assert {name: sorted(rows) for name, rows in result["rows"].items()} == {
        name: list(range(3000)) for name in formats
    }
