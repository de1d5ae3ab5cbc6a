"""Sends a task for each line of the input files, and stores how far it came: send.py INPUT."""

import asyncio
import json
import sys
from pathlib import Path

from tasks import broker, write

given, progress = Path(sys.argv[1]), Path("sent.json")


async def main() -> None:
    """Follow the files forever."""
    await broker.startup()
    sent = json.loads(progress.read_text()) if progress.exists() else {}
    while True:
        for file in sorted(given.iterdir()):
            text = file.read_bytes()[sent.get(file.name, 0) :]
            for line in text[: text.rfind(b"\n") + 1].splitlines(keepends=True):
                await write.kiq(json.loads(line)["id"])
                sent[file.name] = sent.get(file.name, 0) + len(line)
                Path("sent.new").write_text(json.dumps(sent))
                Path("sent.new").replace(progress)
        await asyncio.sleep(0.02)


asyncio.run(main())
