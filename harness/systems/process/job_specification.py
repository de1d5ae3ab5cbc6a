"""The specification of a child process, as JSON: its job, its input and output, its folders, its faults.

The rules this module lives by:

- A specification is a value, written to a file before the child starts: a run that went wrong can be started
  again by hand, with the same file.
- The faults come with what earlier processes have used up of them: a fault that waits for the fifth pass of
  its point counts over the deaths of processes, as in the simulation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from onceproof.harness.model.family import Family, address_of
from onceproof.harness.model.scenario import Barriers, Fault, InputRecord, Parameter, Scenario, StateBackend
from onceproof.harness.model.step_limits import STEPS_PER_RECORD
from onceproof.harness.systems.fault_clock import NOTHING_HIT, ClockState

Rows: TypeAlias = Literal["json", "csv"]

HIDDEN: Final = "."
"""The prefix of part files that are not visible yet."""


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One process of one job."""

    family: str
    """A name, or the path of a user's file."""
    job_name: str
    checkpoints: str
    """The folder of all checkpoints."""
    output: str
    """The folder of the part files."""
    events: str
    """The file to which this process appends what happens."""
    records: str = ""
    """The file with the splits, as JSON."""
    source: str = ""
    """MODULE:FUNCTION that makes a source of ``files`` instead, and maps the family's names of the splits to
    the names that the source gives them. Processes of the job import it by this name."""
    files: tuple[str, ...] = ()
    """What the function gets: a file for each split."""
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
    barriers: Barriers = "aligned"
    aligned_timeout_ms: int = 0
    state_backend: StateBackend = "hashmap"
    incremental: bool = False
    faults: tuple[Fault, ...] = ()
    in_turn: bool = False
    """Each fault waits only once the one before has struck; otherwise all wait from the beginning."""
    waiting: ClockState = NOTHING_HIT
    board: str = ""
    """Where several processes run one job: the file of its faults, which they share."""
    mutant: str = ""
    """The id of a bug to plant."""
    mutant_file: str = ""

    @property
    def suffix(self) -> str:
        """What the names of part files end in."""
        return ".jsonl" if self.rows == "json" else ".csv"


_records_decoder = msgspec.json.Decoder(dict[str, list[InputRecord]])


def read_spec(path: str | Path) -> Spec:
    """Return the specification in a file."""
    return msgspec.json.decode(Path(path).read_bytes(), type=Spec)


def write_spec(spec: Spec, path: Path) -> None:
    """Write a specification for a process to read."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(spec), indent=1))


def read_records(path: str | Path) -> dict[str, list[InputRecord]]:
    """Return the splits in a file; tuples are tuples again, as in a scenario."""
    return _records_decoder.decode(Path(path).read_bytes())


def spec_of(family: Family, scenario: Scenario, folder: Path) -> Spec:
    """Return what a scenario means for a runtime in real processes, without its faults."""
    records = folder / "records.json"
    records.write_bytes(msgspec.json.encode(scenario.records))
    return Spec(
        family=address_of(family),
        job_name=family.name,
        checkpoints=str(folder / "checkpoints"),
        output=str(folder / "output"),
        events="",
        records=str(records),
        parameters=scenario.parameters,
        source_parallelism=scenario.source_parallelism,
        parallelism=scenario.parallelism,
        sink_parallelism=scenario.sink_parallelism,
        max_parallelism=scenario.max_parallelism,
        interval_records=max(1, scenario.checkpoint_interval_ms // STEPS_PER_RECORD),
        channel_buffers=scenario.channel_capacity,
        retained=scenario.retained,
        tolerable_failures=scenario.tolerable_failures,
        restart_delay_ms=scenario.restart_delay_ms,
        barriers=scenario.checkpoint_mode.barriers,
        aligned_timeout_ms=scenario.checkpoint_mode.aligned_timeout_ms,
        state_backend=scenario.state_backend or "hashmap",
        incremental=scenario.incremental is True,
    )
