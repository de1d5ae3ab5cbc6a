"""Reads a checkpoint that a real run has left in a folder as the simulation records its own."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from onceproof.engine.checkpoint.metadata import decode_metadata
from onceproof.engine.runtime.recovery import METADATA, files_of
from onceproof.harness.checkers.state_equivalence import CheckpointState
from onceproof.harness.model.family import Family, options_of
from onceproof.harness.model.history import CHECKPOINT_COMPLETED, History
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.systems.kit.incarnations import Ending, JobRun
from onceproof.harness.systems.simulation.checkpoint_recorder import RecordedCheckpoint
from onceproof.harness.systems.simulation.stored_content import contents_of

Run = TypeVar("Run", bound=JobRun)


def keeping(run: type[Run], kept: Path) -> type[Run]:
    """Return a kind of run that copies the checkpoint folder before the second process of the job begins."""

    class Keeping(run):  # type: ignore[misc, valid-type]
        def live(self, number: int, path: Path) -> Ending:
            if number == 2:
                shutil.copytree(self.spec.checkpoints, kept)
            return run.live(self, number, path)

    return Keeping


def cut_of(history: History, checkpoint_id: int) -> dict[str, int]:
    """Return what the splits had read at a checkpoint."""
    return next(
        dict(payload["cut"])
        for _, kind, subject, payload in history.events
        if kind == CHECKPOINT_COMPLETED and subject == checkpoint_id
    )


def checkpoint_in(folder: Path, history: History) -> RecordedCheckpoint:
    """Return the latest checkpoint in a folder. No watermark has come before it."""
    latest = max(
        folder.rglob(f"chk-*/{METADATA}"), key=lambda path: int(path.parent.name.removeprefix("chk-"))
    )
    metadata = decode_metadata(latest.read_bytes(), METADATA)
    job = latest.parent.parent
    files = {path: (job / path).read_bytes() for path in files_of(metadata)}
    nothing: Mapping[str, frozenset[str]] = {each.operator_id: frozenset() for each in metadata.operators}
    cut = cut_of(history, metadata.checkpoint_id)
    return RecordedCheckpoint(metadata, cut, files, (), (), {}, frozenset(), nothing, False, 0, 0)


def state_of(family: Family, scenario: Scenario, recorded: RecordedCheckpoint) -> CheckpointState:
    """Return the keyed and broadcast state of a checkpoint, timers included, in a form to compare."""
    options = options_of(family)
    without = options.arrival_states_with(scenario.parameters)
    return CheckpointState(*contents_of(recorded, not options.declares, without))
