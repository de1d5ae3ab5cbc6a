"""The specification of a child process, as JSON: its job, its input and output, its folders, its faults.

Rules:

- A specification is written to a file before the child starts, so a failed run can be started again by hand.
- The faults come with the counts of earlier processes (``waiting``): a fault that waits for the fifth pass of
  its point counts across the deaths of processes, as in the simulation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import address_of
from onceproof.harness.model.job_settings import Barriers
from onceproof.harness.model.scenario import (
    USUAL_WATERMARK_INTERVAL_MS,
    Fault,
    InputRecord,
    Operation,
    Parameter,
    Scenario,
    StateBackend,
)
from onceproof.harness.model.step_limits import STEPS_PER_RECORD
from onceproof.harness.systems.fault_clock import NOTHING_HIT, ClockState

Rows: TypeAlias = Literal["json", "csv"]

CHECKPOINTS: Final = "checkpoints"
"""The folder of the checkpoints, beside that of the output."""
HIDDEN: Final = "."
"""The prefix of part files that are not visible yet."""


class TrialTopics(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The topics of Kafka that one scenario has to itself."""

    servers: str
    """The broker, as host:port."""
    servers_of_job: str
    """The broker as the job reaches it, through a proxy."""
    prefix: str
    """What the names of all its topics and transactions begin with."""
    lengths: dict[str, int]
    """The numbers of records by split; the splits are the partitions of the input topic, in this order."""

    @property
    def input_topic(self) -> str:
        """The topic with the records of the scenario."""
        return f"{self.prefix}-in"

    @property
    def unlisted(self) -> str:
        """The name of a transaction for rows that no sink has written."""
        return f"{self.prefix}-unlisted"

    def output_topic(self, name: str) -> str:
        """Return the topic of a sink."""
        return f"{self.prefix}-out-{name}"

    def is_output(self, topic: str) -> bool:
        """Return whether a topic is that of a sink of this scenario."""
        return topic.startswith(f"{self.prefix}-out-")


class TrialObjects(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part of an object store that one scenario has to itself."""

    bucket: str
    prefix: str
    """What the keys of all its objects begin with, without a slash at the end."""
    environment: dict[str, str]
    """The variables by which a client reaches the store."""
    environment_of_job: dict[str, str]
    """The same for the job, through a proxy."""

    @property
    def output(self) -> str:
        """The address of the part files."""
        return f"s3://{self.bucket}/{self.prefix}/output"

    @property
    def checkpoints(self) -> str:
        """The address of the checkpoint directories."""
        return f"s3://{self.bucket}/{self.prefix}/checkpoints"

    @property
    def savepoints(self) -> str:
        """The address of savepoints."""
        return f"s3://{self.bucket}/{self.prefix}/savepoints"


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One process of one job."""

    family: str
    """The name of a family, or the path of a user's file."""
    job_name: str
    checkpoints: str
    """The folder that holds the checkpoint directories."""
    output: str
    """The folder of the part files."""
    part_folder: str = ""
    """Where the file sink writes; "": into ``output``."""
    in_buckets: bool = False
    """Whether the file sink distributes rows over folders, and begins a new file after some of them."""
    events: str
    """The event log of this process."""
    records: str = ""
    """The file with the splits, as JSON."""
    source: str = ""
    """MODULE:FUNCTION, used instead of ``records``. The function gets ``files``; it returns a source, and a
    mapping of the family's split names to the source's. Each process of the job imports it."""
    files: tuple[str, ...] = ()
    """The argument of that function: one file for each split. Without a function, the splits themselves, in
    the order of ``records``: an input that can change."""
    rows: Rows = "json"
    parameters: dict[str, Parameter] = {}
    source_parallelism: int = 0
    """0: as ``parallelism``, also after a rescale."""
    parallelism: int = 1
    sink_parallelism: int = 0
    """0: as ``parallelism``, also after a rescale."""
    max_parallelism: int = 128
    interval_records: int = 1
    buffer_records: int = 1
    channel_buffers: int = 8
    retained: int = 1
    tolerable_failures: int = 0
    restart_delay_ms: int = 0
    watermark_interval_ms: int = USUAL_WATERMARK_INTERVAL_MS
    is_endless: bool = False
    """Whether the sources never end; once all is read the process stops the job, drained."""
    savepoints: str = ""
    """The folder of savepoints."""
    barriers: Barriers = "aligned"
    aligned_timeout_ms: int = 0
    state_backend: StateBackend = "hashmap"
    incremental: bool = False
    faults: tuple[Fault, ...] = ()
    in_turn: bool = False
    """Whether each fault waits only after the one before it has struck; otherwise all wait from the start."""
    waiting: ClockState = NOTHING_HIT
    board: str = ""
    """The file of the fault board, if several processes run the job."""
    workers: int = 1
    """How many processes run the tasks, on the local runtime."""
    stall_seed: int = 0
    """At which messages the connections of workers stall without a fault; 0: at none."""
    operations: tuple[Operation, ...] = ()
    """What the user asks of the running job."""
    postgres: str = ""
    """The address of the database of PostgreSQL that the job writes to; "": there is none."""
    kafka: TrialTopics | None = None
    """The topics that the job reads and writes; None: there are none."""
    objects: TrialObjects | None = None
    """Where the job has its checkpoints, and its part files, in an object store; None: there is none."""
    postgres_of_job: str = ""
    """The same database as the job reaches it, through a proxy; "": it is reached directly."""
    strikes: str = ""
    """Where faults of servers are carried out (`server_strikes.py`); "": there are none."""
    request_timeout_ms: int = 0
    """Of the job's requests to its servers; 0: the engine's default."""
    mutant: str = ""
    """The id of a bug to plant."""
    mutant_file: str = ""

    @property
    def suffix(self) -> str:
        """The suffix of part file names."""
        return ".jsonl" if self.rows == "json" else ".csv"


_records_decoder = msgspec.json.Decoder(dict[str, list[InputRecord]])


def read_spec(path: str | Path) -> Spec:
    return msgspec.json.decode(Path(path).read_bytes(), type=Spec)


def write_spec(spec: Spec, path: Path) -> None:
    """Write a specification for a process to read."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(spec), indent=1))


def read_records(path: str | Path) -> dict[str, list[InputRecord]]:
    """Return the splits in a file, with tuples as in a scenario."""
    return _records_decoder.decode(Path(path).read_bytes())


def spec_of(family: Family, scenario: Scenario, folder: Path) -> Spec:
    """Write the scenario's records below ``folder``. Return its specification without events and faults."""
    records = folder / "records.json"
    records.write_bytes(msgspec.json.encode(scenario.records))
    return Spec(
        family=address_of(family),
        job_name=family.name,
        checkpoints=str(folder / CHECKPOINTS),
        output=str(folder / "output"),
        events="",
        records=str(records),
        parameters=scenario.parameters,
        source_parallelism=scenario.source_parallelism,
        parallelism=scenario.parallelism,
        sink_parallelism=scenario.sink_parallelism,
        max_parallelism=scenario.max_parallelism,
        interval_records=max(1, scenario.checkpoint_interval_ms // STEPS_PER_RECORD),
        buffer_records=scenario.most_buffer_records,
        channel_buffers=scenario.channel_capacity,
        retained=scenario.retained,
        tolerable_failures=scenario.tolerable_failures,
        restart_delay_ms=scenario.restart_delay_ms,
        watermark_interval_ms=scenario.watermark_interval,
        savepoints=str(folder / "savepoints"),
        barriers=scenario.checkpoint_mode.barriers,
        aligned_timeout_ms=scenario.checkpoint_mode.aligned_timeout_ms,
        state_backend=scenario.state_backend or "hashmap",
        incremental=scenario.incremental is True,
    )
