"""Running totals by key, from files that grow: what it has read and its totals stand in a file of state.

Rows wait in a hidden file until the progress that they belong to is stored; then the file gets its name. A
start finds in its state which file it still has to name, and removes the others.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

given, output = Path(sys.argv[1]), Path(sys.argv[2])
stored = Path("state.json")
state: dict[str, Any] = (
    json.loads(stored.read_text()) if stored.exists() else {"offsets": {}, "totals": {}, "batch": 0}
)
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


def show(batch: int) -> None:
    """Give the file of a batch whose progress is stored its name, if it has not got it yet."""
    if hidden(batch).exists():
        os.replace(hidden(batch), output / f"{batch:06}.jsonl")


def hidden(batch: int) -> Path:
    """Return the hidden file of a batch."""
    return output / f".{batch:06}.jsonl"


show(state["batch"])
for left in output.glob(".*"):
    left.unlink()
while True:
    rows = new_rows()
    if rows:
        state["batch"] += 1
        hidden(state["batch"]).write_text("".join(f"{row}\n" for row in rows))
        store()
        show(state["batch"])
    time.sleep(0.01)
