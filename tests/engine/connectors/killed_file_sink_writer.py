"""Forks writers that use the file sink, kills them with SIGKILL at random moments, lets the last one finish.

Run by test_file_sink_crashes as a program of its own: ``killed_file_sink_writer.py FOLDER KILLS``. What a
writer has completed lies in a file that is replaced atomically, as checkpoint metadata is.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.file_sink import FileSink
from onceproof.engine.functions import FunctionInitializationContext, FunctionSnapshotContext, RuntimeContext
from onceproof.engine.state.operator import OperatorStateStore
from onceproof.engine.state.stored import EncodedList
from onceproof.engine.types import Types

ROWS = 200_000
BATCH = 100
BATCHES_PER_CHECKPOINT = 4
BATCHES_PER_CHECKPOINT_AT_LAST = 200


def write(folder: Path, attempt: int, undisturbed: bool) -> None:
    """One attempt, from the latest completed checkpoint to the end, or until it is killed just before."""
    batches_per_checkpoint = BATCHES_PER_CHECKPOINT_AT_LAST if undisturbed else BATCHES_PER_CHECKPOINT
    metadata = folder / "metadata"
    checkpoint_id, row, elements = None, 0, []
    if metadata.exists():
        checkpoint_id, row, elements = json.loads(metadata.read_text())
    store = OperatorStateStore()
    if checkpoint_id is not None:
        encoded = [bytes.fromhex(element) for element in elements]
        store.restore({"state": EncodedList("SPLIT_DISTRIBUTE", Types.DYNAMIC().descriptor, encoded)})
    builder = FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder())
    sink = builder.build().create_function()
    sink.set_runtime_context(
        RuntimeContext(
            task_name="sink",
            subtask=0,
            parallelism=1,
            max_parallelism=128,
            attempt=f"1.{attempt}",
            clock=lambda: 0,
            pass_point=lambda point, checkpoint_id: None,
        )
    )
    sink.initialize_state(FunctionInitializationContext(checkpoint_id, store))
    checkpoint_id = checkpoint_id or 0
    batches = 0
    while row < ROWS:
        if row == ROWS - BATCH and not undisturbed:
            signal.pause()
        sink.invoke_batch(list(range(row, row + BATCH)))
        row += BATCH
        batches += 1
        if row == ROWS:
            sink.finish()
        if batches % batches_per_checkpoint == 0 or row == ROWS:
            checkpoint_id += 1
            sink.snapshot_state(FunctionSnapshotContext(checkpoint_id, 0))
            (snapshot,) = store.snapshot().lists
            elements = [Types.DYNAMIC().encode(element).hex() for element in snapshot.elements]
            temporary = folder / "metadata.new"
            temporary.write_text(json.dumps([checkpoint_id, row, elements]))
            os.replace(temporary, metadata)
            sink.notify_checkpoint_complete(checkpoint_id)
    sink.close()


def main() -> None:
    folder, kills = Path(sys.argv[1]), int(sys.argv[2])
    chance = random.Random(os.getpid())
    killed = 0
    attempt = 0
    while True:
        attempt += 1
        child = os.fork()
        if child == 0:
            status = 1
            try:
                write(folder, attempt, undisturbed=attempt > kills)
                status = 0
            finally:
                os._exit(status)
        if attempt <= kills:
            time.sleep(chance.random() * 0.015)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            killed += 1
        elif os.WEXITSTATUS(status) != 0:
            sys.exit("a writer failed")
        else:
            break
    print(json.dumps({"killed": killed, "attempts": attempt, "rows": ROWS}))


if __name__ == "__main__":
    main()
