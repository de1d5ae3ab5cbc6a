"""Send a task for each line of growing files, and store how far it came: send.py INPUT.

A task may be sent twice after a kill, and none is left out.
"""

import json
import sys
import time
from pathlib import Path

from tasks import write

given, progress = Path(sys.argv[1]), Path("sent.json")
sent = json.loads(progress.read_text(encoding="utf-8")) if progress.exists() else {}
while True:
    for file in sorted(given.iterdir()):
        text = file.read_bytes()[sent.get(file.name, 0) :]
        for line in text[: text.rfind(b"\n") + 1].splitlines(keepends=True):
            write.delay(json.loads(line)["id"])
            sent[file.name] = sent.get(file.name, 0) + len(line)
            Path("sent.new").write_text(json.dumps(sent), encoding="utf-8")
            Path("sent.new").replace(progress)
    time.sleep(0.02)
