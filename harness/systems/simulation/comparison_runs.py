"""What else can come of a scenario: a kept checkpoint restored elsewhere, and the run that nothing disturbed.

The rules this module lives by:

- What is restored finds what was there when the checkpoint completed, in the storage and outside, and nothing
  of what came later. Nothing goes wrong in it any more: its end tells of the checkpoint alone.
- The undisturbed run reads exactly the input before a cut, with everything else done before each read, and
  takes its one checkpoint there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from onceproof.engine.messages import CHECKPOINT, checkpoint_folder
from onceproof.engine.operators.source import SourceOperator
from onceproof.engine.runtime.starting_point import StartingPoint
from onceproof.harness.model.family import Family
from onceproof.harness.model.history import Cut, History
from onceproof.harness.model.scenario import Scenario, Schedule, StateBackend
from onceproof.harness.model.step_limits import ample_step_budget
from onceproof.harness.systems.simulation.actions import Action, Slot
from onceproof.harness.systems.simulation.checkpoint_recorder import Keeper, Kept, copy_of
from onceproof.harness.systems.simulation.schedule import NOTHING, ListingChooser
from onceproof.harness.systems.simulation.world import World


def kept_checkpoints(family: Family, scenario: Scenario) -> list[Kept]:
    """Run a scenario and keep all its checkpoints."""
    world = World(family, scenario)
    keeper = Keeper(world)
    world.run()
    return keeper.kept


def restored(
    family: Family, scenario: Scenario, kept: Kept, parallelism: int, backend: StateBackend | None = None
) -> History:
    """Restore a kept checkpoint and run to the end; what was visible already begins the history.

    ``backend`` is where keyed state lives then, if it is to be another: a savepoint can be read by each.
    """
    calm = replace(
        scenario,
        faults=(),
        parallelism=parallelism,
        operations=UNSET,
        # One that was drawn short for the job as it was would let no checkpoint of a larger one complete.
        checkpoint_timeout_ms=10 * scenario.step_budget,
    )
    if backend is not None:
        calm = replace(calm, state_backend=backend)
    world = World(family, calm)
    metadata = kept.metadata
    if metadata.kind != CHECKPOINT:
        # Whatever checkpoints the job had besides, it is to go on from this one.
        folder = checkpoint_folder(metadata.checkpoint_id, metadata.kind)
        world.operations.begins_from = StartingPoint(folder, metadata.checkpoint_id)
    world.storage.files = dict(kept.files)
    world.external.transactions = {each.name: copy_of(each) for each in kept.transactions}
    world.history.events.extend(kept.visible)
    world.clock.now = kept.now_ms
    return world.run()


def undisturbed(family: Family, scenario: Scenario, cut: Cut) -> Kept | None:
    """Run without faults up to a cut, and keep the checkpoint that covers it; None if there is none."""
    budget = ample_step_budget(replace(scenario, faults=(), schedule=Schedule()))
    calm = replace(
        scenario,
        faults=(),
        operations=UNSET,
        # Its barriers overtake nothing: what is before the cut is in the state.
        mode=UNSET,
        schedule=Schedule(horizon=2 * budget),
        checkpoint_interval_ms=budget,
        checkpoint_timeout_ms=10 * budget,
        step_budget=2 * budget,
    )
    chooser = _UpToCut(cut)
    world = World(family, calm, chooser=chooser)
    keeper = _FirstOnly(world)
    world.run()
    return keeper.kept[0] if keeper.kept and keeper.kept[0].cut == cut else None


class _FirstOnly(Keeper):
    """Keeps one checkpoint and ends the run: what comes after it is of no interest."""

    def checkpoint_completed(self, metadata: Any, cut: Cut) -> None:
        """Keep it, and that is all."""
        if not self.kept:
            super().checkpoint_completed(metadata, cut)
        self._world.end()


class _UpToCut(ListingChooser):
    """Lets the sources read what is before a cut, and everything else come first."""

    __slots__ = ("_cut",)

    def __init__(self, cut: Cut) -> None:
        self._cut = cut

    def choose(self, slots: Sequence[Slot], pending: Sequence[Action], step: int) -> int:
        """What is under way, then what can be delivered, then a read."""
        if pending:
            return len(slots)
        sources = []
        for index, slot in enumerate(slots):
            if slot.queue and slot.is_ready():
                if not slot.task.is_source:
                    return index
                sources.append(index)
        for index in sources:
            head: Any = slots[index].task.operators[0]
            if self._turns_to_unread(head):
                return index
        return NOTHING

    def _turns_to_unread(self, head: SourceOperator) -> bool:
        """Have a source read next from a split that is not yet read up to the cut, if it has one."""
        for turn, (split, position) in enumerate(head.positions().items()):
            if position < self._cut.get(split, 0):
                head.start_at_split(turn)
                return True
        return False
