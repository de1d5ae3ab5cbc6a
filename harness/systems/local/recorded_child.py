"""A process whose calls are recorded: ``python -m onceproof.harness.systems.local.recorded_child SPEC``.

It runs a family's job to its end on the local runtime, as a user would, or kills itself after a number of
calls. It marks in the log each checkpoint that it has reported complete, and the end of the job.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from onceproof.engine.api.datastream import StreamExecutionEnvironment
from onceproof.engine.checkpoint.events import CheckpointCompleted
from onceproof.engine.configuration import Configuration
from onceproof.engine.connectors.collection import CollectionSource
from onceproof.engine.runtime.local import LocalExecution
from onceproof.harness.model.family import load_family
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.systems.disk.recorded_calls import CallLog, recorded
from onceproof.harness.systems.local.part_file_io import PartFileIO

FINISHED = "finished"
CHECKPOINTS = "state/checkpoints"
OUTPUT = "results/rows"
"""Below the root. Storage and sink each make two folders; the syncs of the one do nothing for the other."""


class RecordedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job whose file calls are recorded."""

    family: str
    records: dict[str, tuple[InputRecord, ...]]
    root: str
    """The folder of its checkpoints and its output."""
    parallelism: int = 2
    interval_records: int = 4
    state_backend: str = "hashmap"
    log: str = ""
    dies_after: int = 0
    """After so many recorded calls the process kills itself; 0: it does not."""
    dies_at: tuple[str, str] = ("", "")
    """After the first call of this method with this ending of its path it kills itself; "": it does not."""


def run(job: RecordedJob) -> None:
    """Run the job to its end, from its checkpoints if there are any."""
    family = load_family(job.family)
    environment = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_mapping(
            {
                "execution.checkpointing.dir": f"{job.root}/{CHECKPOINTS}",
                "execution.checkpointing.interval-records": job.interval_records,
                "execution.checkpointing.incremental": job.state_backend == "rocksdb",
                "state.backend.type": job.state_backend,
                "pipeline.buffer-records": 1,
                # A damaged disk must end the job at once.
                "restart-strategy.type": "none",
            }
        )
    )
    environment.set_parallelism(job.parallelism)
    splits = {
        split: [(value, timestamp) for timestamp, value in records] for split, records in job.records.items()
    }
    family.job(environment, PartFileIO(CollectionSource(splits), Path(job.root, OUTPUT), {}, job.parallelism))
    environment.execute(family.name)


def main(path: str) -> None:
    """Run the specification in a file and record its calls."""
    job = msgspec.json.decode(Path(path).read_bytes(), type=RecordedJob)
    log = CallLog(job.log, job.root, job.dies_after, job.dies_at)

    reported = LocalExecution.checkpoint_completed

    def completed(self: Any, effect: CheckpointCompleted) -> None:
        reported(self, effect)
        log.mark(str(effect.checkpoint_id))

    with recorded(log), replaced(LocalExecution, "checkpoint_completed", completed):
        run(job)
    log.mark(FINISHED)


if __name__ == "__main__":
    main(sys.argv[1])
