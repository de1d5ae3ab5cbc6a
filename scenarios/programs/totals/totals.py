"""Running totals by key, from files that grow: what it has read and its totals stand in a file of state.

It appends rows at once and stores its progress every tenth of a second: killed in between, it
writes rows twice.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

given, written = Path(sys.argv[1]), Path(sys.argv[2]) / "totals.jsonl"
stored = Path("state.json")
state: dict[str, Any] = {"offsets": {}, "totals": {}}
if stored.exists():
    state = json.loads(stored.read_text())
offsets, totals = state["offsets"], state["totals"]


def new_rows() -> list[str]:
    """Read the lines that have come since the last look, and return a row for each."""
    rows = []
    for path in sorted(given.iterdir()):
        text = path.read_bytes()[offsets.get(path.name, 0) :]
        whole = text[: text.rfind(b"\n") + 1]
        offsets[path.name] = offsets.get(path.name, 0) + len(whole)
        for line in whole.splitlines():
            record = json.loads(line)
            key = record["key"]
            totals[key] = totals.get(key, 0) + record["amount"]
            rows.append(json.dumps({"key": key, "total": totals[key]}))
    return rows


def store() -> None:
    """Replace the file of state by one with the present state."""
    Path("state.new").write_text(json.dumps(state))
    os.replace("state.new", stored)


stored_at = time.monotonic()
while True:
    rows = new_rows()
    if rows:
        with written.open("a") as output:
            output.write("".join(f"{row}\n" for row in rows))
    if time.monotonic() > stored_at + 0.1:
        store()
        stored_at = time.monotonic()
    time.sleep(0.01)
