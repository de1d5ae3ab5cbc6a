"""Print the rows of a file sink of Spark that its log shows, as Spark's own readers see them.

    python committed.py FOLDER

Files that the log does not name are those of tasks that were killed.
"""

import json
import sys
from pathlib import Path

written = Path(sys.argv[1])
log = written / "_spark_metadata"
names: dict[str, None] = {}
batches = [path for path in log.glob("[0-9]*") if path.suffix in ("", ".compact")]
for batch in sorted(batches, key=lambda path: int(path.stem)):
    _, *entries = batch.read_text(encoding="utf-8").splitlines()
    names |= dict.fromkeys([json.loads(entry)["path"].rpartition("/")[2] for entry in entries])
for name in names:
    sys.stdout.write((written / name).read_text(encoding="utf-8"))
