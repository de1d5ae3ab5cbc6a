"""Another job that writes into the folder of the job on trial: what it has prepared must survive that job.

Its sink is the engine's file sink, so a planted bug changes it, too. Its part prefix begins with that of the
job on trial, its operators and checkpoint ids are that job's. It leaves files that are pre-committed, and one
that is open, as a process does that was killed before its first commit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.file_sink_function import FileSinkFunction
from onceproof.engine.connectors.part_files import OutputFileConfig
from onceproof.engine.functions import (
    FunctionInitializationContext,
    FunctionSnapshotContext,
    RuntimeContext,
)
from onceproof.engine.state.operator import OperatorStateStore
from onceproof.harness.systems.process.file_io import PREFIX

NEIGHBOUR: Final = "neighbour"
CHECKPOINTS: Final = 3


def move_in(folder: Path, suffix: str) -> dict[str, bytes]:
    """Write the neighbour's files. Return their content by name."""
    before = {path.name for path in folder.iterdir()}
    sink = FileSinkFunction(
        str(folder), Encoder.simple_string_encoder(), OutputFileConfig(f"{PREFIX}-0", suffix)
    )
    sink.set_runtime_context(
        RuntimeContext(
            task_name=NEIGHBOUR,
            subtask=0,
            parallelism=1,
            max_parallelism=1,
            attempt="0.1",
            clock=lambda: 0,
            pass_point=lambda point, checkpoint_id: None,
            job_id=NEIGHBOUR,
            operator_id=NEIGHBOUR,
        )
    )
    sink.initialize_state(FunctionInitializationContext(None, OperatorStateStore()))
    for checkpoint_id in range(1, CHECKPOINTS + 1):
        sink.invoke(NEIGHBOUR, None)
        sink.snapshot_state(FunctionSnapshotContext(checkpoint_id, 0))
    sink.invoke(NEIGHBOUR, None)
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in before}
