"""Mutants of restores by another version of the job: what it lacks, adds or declares in another way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.checkpoint.redistribution import RestoreAssignment, match_state
from onceproof.engine.job import deployment
from onceproof.engine.state.hashmap import HashMapStateBackend
from onceproof.engine.state.keyed import Registered
from onceproof.engine.types import evolution
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant

UPGRADED: Final = Path(__file__).parents[1] / "upgraded" / "new.py"
FAMILIES: Final = (f"{UPGRADED}?upgrades=old.py&allow-non-restored-state=",)


@mutant(
    id="migrated-fields-by-place",
    breaks="exactly_once",
    summary="a field of a migrated row is taken from its place in the new type, not by its name",
    families=FAMILIES,
)
def migrated_fields_by_place(reached: Reached) -> Iterator[None]:
    """It shows where a field is added in front of others."""
    picks = evolution._picks

    def by_place(
        stored_names: tuple[str, ...], stored_fields: Any, names: tuple[str, ...], *others: Any
    ) -> list[Callable[[Any], Any]]:
        found = picks(stored_names, stored_fields, names, *others)
        if stored_names != names[: len(stored_names)]:
            reached()
            found = [evolution._picked(name, None) for name in stored_names[: len(names)]]
            found += [evolution._made(lambda: None)] * (len(names) - len(found))
        return found

    with replaced(evolution, "_picks", by_place):
        yield


@mutant(
    id="new-state-takes-over-what-is-dropped",
    breaks="exactly_once",
    summary="a state that is new in an operator gets the content of one that is no longer registered",
    families=FAMILIES,
)
def new_state_takes_over_what_is_dropped(reached: Reached) -> Iterator[None]:
    """Tables of equal types are found in their order."""
    open_table = HashMapStateBackend._open_table

    def any_of_the_type(self: HashMapStateBackend, registered: Registered) -> Any:
        if registered.name not in self._restored:
            for name, table in self._restored.items():
                if (table.kind, table.value_type) == (registered.kind, registered.stored_type.descriptor):
                    reached()
                    self._restored = {**self._restored, registered.name: table}
                    del self._restored[name]
                    break
        return open_table(self, registered)

    with replaced(HashMapStateBackend, "_open_table", any_of_the_type):
        yield


@mutant(
    id="state-behind-what-is-left-is-lost",
    breaks="exactly_once",
    summary="where the state of an operator is left behind, so is that of the operator after it",
    families=FAMILIES,
)
def state_behind_what_is_left_is_lost(reached: Reached) -> Iterator[None]:
    """A reader of the metadata that skips one operator too many."""
    redistribute = deployment.redistribute

    def skipping(
        metadata: CheckpointMetadata, vertices: Sequence[tuple[str, int, int, bool]], **settings: Any
    ) -> dict[tuple[str, int], RestoreAssignment]:
        assignments = redistribute(metadata, vertices, **settings)
        skipped = {each.operator_id for each in match_state(metadata, [each[0] for each in vertices]).skipped}
        before = ""
        for operator in metadata.operators:
            if before in skipped and operator.operator_id not in skipped:
                for name, subtask in assignments:
                    if name == operator.operator_id:
                        reached()
                        assignments[name, subtask] = RestoreAssignment(name)
            before = operator.operator_id
        return assignments

    with replaced(deployment, "redistribute", skipping):
        yield


@mutant(
    id="operator-state-by-place",
    breaks="exactly_once",
    summary="operator state is found by the place of its operator, so that one that has moved has none",
    families=FAMILIES,
)
def operator_state_by_place(reached: Reached) -> Iterator[None]:
    """Keyed state follows the uid; positions of sources and prepared transactions do not."""
    redistribute = deployment.redistribute

    def in_place(
        metadata: CheckpointMetadata, vertices: Sequence[tuple[str, int, int, bool]], **settings: Any
    ) -> dict[tuple[str, int], RestoreAssignment]:
        assignments = redistribute(metadata, vertices, **settings)
        places = {operator.operator_id: place for place, operator in enumerate(metadata.operators)}
        moved = {each[0] for place, each in enumerate(vertices) if places.get(each[0], place) != place}
        for (name, subtask), assignment in assignments.items():
            if name in moved and assignment.operator:
                reached()
                assignments[name, subtask] = RestoreAssignment(name, assignment.keyed)
        return assignments

    with replaced(deployment, "redistribute", in_place):
        yield
