"""The process below a Spark task that runs its scenarios, and the task's side of it.

The rules this module lives by:

- Scenarios run in a process of their own, so one that ends its process, computes forever or exhausts its
  memory fails alone (harness/trials/supervision.py), and Spark sees no worker die.
- The process stays for the next tasks of its Spark worker, with the families that it has loaded, and ends
  with that worker. One more start would cost more than a task.
- It answers with Arrow batches of trials, and with the lines of their outcomes.
- This module needs no JVM and no Spark session.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from dataclasses import dataclass
from time import perf_counter
from typing import Final

import pyarrow as pa

from onceproof.harness.campaign.trial_tables import TrialTables, TriedScenario
from onceproof.harness.checkers.outcome import to_line
from onceproof.harness.generation.generator import USUAL
from onceproof.harness.model.family import Family, FamilyError
from onceproof.harness.model.family_places import load_family, split_address
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.model.step_limits import Budget
from onceproof.harness.trials.pool import (
    Batch,
    Done,
    FamilyToLoad,
    Start,
    WorkerPool,
    error_of,
)
from onceproof.harness.trials.supervision import Notes
from onceproof.harness.trials.trial import SIMULATED
from onceproof.harness.trials.worker import Answer, serve, tried_scenarios

PROGRAM: Final = __name__


@dataclass(frozen=True, slots=True)
class _LoadedFamily:
    """A family whose scenarios this process runs."""

    described: FamilyToLoad
    family: Family
    tables: TrialTables


def load_as_asked(address: str, asked: str, folder: str) -> Family:
    """Load a family from its address on this machine; messages name it as the user did.

    Args:
        folder: the folder on the driver whose modules came along; "" for none.

    Raises:
        FamilyError: it cannot be loaded.
    """
    try:
        return load_family(address)
    except FamilyError as error:
        message = as_asked(str(error), address, asked)
        if not folder or not isinstance(error.__cause__, ImportError):
            raise FamilyError(message) from None
        raise FamilyError(
            f"{message}: a Spark executor has what is installed there, and the modules in"
            f" {folder}: put the module there, or install it on the executors"
        ) from None


def as_asked(message: str, address: str, asked: str) -> str:
    """Return a message with the user's path of a family in place of this machine's."""
    (here, _), (path, _) = split_address(address), split_address(asked)
    return message if here is None else message.replace(str(here), str(path))


def _warn(line: str) -> None:
    print(f"onceproof: {line}", file=sys.stderr)


_running: list[WorkerPool] = []


def scenario_process(seed: int, budget: Budget) -> WorkerPool:
    """Return the process of this Spark worker, for the scenarios of a run."""
    start = Start(seed, (), SIMULATED.name, budget=budget)
    if _running and _running[0].start != start:
        stop_scenario_process()
    if not _running:
        # It holds one batch, so that none is left over where a task ends early.
        _running.append(WorkerPool(1, start, _warn, ahead=1, module=PROGRAM))
    return _running[0]


@atexit.register
def stop_scenario_process() -> None:
    """End the process of this Spark worker, if it has one."""
    while _running:
        _running.pop().close(at_once=True)


def run_to_tables(loaded: _LoadedFamily, seed: int, batch: Batch, notes: Notes | None) -> Done:
    """Run the scenarios of a batch, which are those of one family, and answer with trials and lines."""
    started = perf_counter()
    described, family, tables = loaded.described, loaded.family, loaded.tables
    family_error = internal_error = ""
    lines: tuple[bytes, ...] = ()
    turns = range(batch.first, batch.first + batch.count)
    drawn = ((family, scenario_seed(seed, family.name, turn), USUAL) for turn in turns)
    try:
        trials = [
            TriedScenario.of(turn * described.families + described.place, *tried).for_query(family)
            for turn, tried in zip(turns, tried_scenarios(drawn, batch, SIMULATED, notes), strict=False)
        ]
        if trials:
            lines = (_packed(tables.batch(trials)), b"".join([to_line(trial.outcome) for trial in trials]))
    except Exception as error:
        family_error, internal_error = error_of(error, batch)
        family_error = as_asked(family_error, described.address, described.asked)
    return Done(batch.first, lines, perf_counter() - started, family_error, internal_error, batch.place)


def _packed(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def unpacked_batches(data: bytes) -> list[pa.RecordBatch]:
    """Return the Arrow batches of an answer."""
    with pa.ipc.open_stream(data) as stream:
        return list(stream)


def main() -> None:
    """Answer the batches of Spark tasks until the Spark worker closes the stream."""
    described: list[FamilyToLoad] = []
    loaded: dict[int, _LoadedFamily] = {}

    def prepare(start: Start) -> Answer:
        def answer(batch: Batch, notes: Notes) -> Done:
            assert batch.place is not None
            try:
                if batch.place not in loaded:
                    loaded[batch.place] = _loaded(described[batch.place])
            except FamilyError as error:
                return Done(batch.first, (), 0.0, str(error), place=batch.place)
            return run_to_tables(loaded[batch.place], start.seed, batch, notes)

        return answer

    serve(prepare, described.append)
    os._exit(0)


def _loaded(described: FamilyToLoad) -> _LoadedFamily:
    family = load_as_asked(described.address, described.asked, described.folder)
    schemas = [
        pa.ipc.read_schema(pa.py_buffer(each)) for each in (described.record_schema, described.row_schema)
    ]
    # Modules stay loaded, so the garbage collector need not traverse them again.
    gc.freeze()
    return _LoadedFamily(described, family, TrialTables(family.name, *schemas))
