"""What two versions of a program keep in their state, and what becomes of it in an upgrade.

Rules:

- States register when a program runs, so each version is run without faults, up to the same cut of the same
  records. What a checkpoint there holds is compared; a state that no record has touched is not seen.
- State is matched by operator id, and within an operator by name, as a restore does it.
- Whether a type migrates is what the engine says when it restores the checkpoint.
- An operator without a partner that keeps states of the same names is taken for one whose id has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from onceproof.engine.checkpoint.metadata import CheckpointMetadata
from onceproof.engine.checkpoint.redistribution import RestoreRefused, effective_max_parallelism
from onceproof.engine.graph import JobGraph
from onceproof.engine.state.restoring import describe
from onceproof.engine.state.snapshot import decode_task_snapshot
from onceproof.engine.state.stored import EncodedTable
from onceproof.engine.state.timers import EVENT_TIMERS, PROCESSING_TIMERS
from onceproof.harness.systems.simulation.checkpoint_recorder import RecordedCheckpoint
from onceproof.reports.text import joined

ALLOW: Final = "--allow-non-restored-state"
_TIMERS: Final = {EVENT_TIMERS: "event-time timers", PROCESSING_TIMERS: "processing-time timers"}
_SHOWN_KEYS: Final = 3


class Shape(NamedTuple):
    """The kind and the types of a state, as descriptors."""

    kind: str
    value: Any
    key: Any = None
    namespace: Any = None


class Kept(NamedTuple):
    """The state of one operator."""

    operator_id: str
    uid: str | None
    name: str
    states: dict[str, Shape]
    keys: set[str]
    """The keys, and the windows, under which it is kept."""

    @property
    def called(self) -> str:
        """How a user finds the operator."""
        return repr(self.uid or self.name)


def kept_in(recorded: Iterable[RecordedCheckpoint]) -> dict[str, Kept]:
    """Return by operator id the state that checkpoints hold."""
    found: dict[str, Kept] = {}
    for each in recorded:
        for operator in each.metadata.operators:
            for subtask in operator.subtasks:
                if subtask.handle is None:
                    continue
                path = subtask.handle.path
                stored = decode_task_snapshot(each.files[path], path).get(operator.operator_id)
                if stored is None or not (stored.keyed or stored.operator):
                    continue
                name = operator.operator_id
                kept = found.setdefault(name, Kept(name, operator.uid, operator.name, {}, set()))
                for state, table in stored.keyed.items():
                    if not table.groups and state.startswith(tuple(_TIMERS)):
                        # Every operator with timers has both kinds.
                        continue
                    kept.states[state] = Shape(
                        table.kind, table.value_type, table.key_type, table.namespace_type
                    )
                    kept.keys.update(_keys_in(table))
                for state, items in stored.operator.items():
                    kept.states[state] = Shape(items.mode, items.type)
    return found


def _keys_in(table: EncodedTable) -> Iterator[str]:
    for group in table.groups:
        for entry, _ in table.pairs(group):
            yield repr(entry)


class Versions(NamedTuple):
    """The state of two versions, and which operators the new one has."""

    old: Mapping[str, Kept]
    new: Mapping[str, Kept]
    uids: Mapping[str, str | None]
    """Of all operators of the new version by their id."""
    transactions: frozenset[str]
    """The ids of the sinks of the old version that keep transactions."""
    refusals: str
    """What the engine said when it restored the state of the old version in the new one."""

    @property
    def has_timers(self) -> bool:
        """Whether timers were waiting."""
        kept = (*self.old.values(), *self.new.values())
        return any(state.startswith(tuple(_TIMERS)) for each in kept for state in each.states)

    @property
    def unclaimed(self) -> list[Kept]:
        """The state that no operator of the new version takes."""
        return [kept for name, kept in self.old.items() if name not in self.uids]

    def lines(self, *, is_allowed: bool) -> Iterator[str]:
        """Yield one sentence for what is carried over, and for each state that is not.

        Args:
            is_allowed: whether the new version may leave state behind.
        """
        both = [(kept, self.new[name]) for name, kept in self.old.items() if name in self.new]
        carried = [
            f"{here.called} ({_names(state for state in here.states if state in there.states)})"
            for here, there in both
            if here.states.keys() & there.states.keys()
        ]
        yield f"state carried over: {', '.join(carried) or 'none'}"
        for here, there in both:
            yield from self._changes(here, there)
        partners: set[str] = set()
        for kept in self.unclaimed:
            partner = self._partner_of(kept, partners)
            yield _dropped(kept, partner, kept.operator_id in self.transactions, is_allowed=is_allowed)
            if partner is not None:
                partners.add(partner.operator_id)
        for name, kept in self.old.items():
            if name in self.uids and name not in self.new:
                yield f"state dropped: {kept.called} ({_names(kept.states)}): it keeps none any more"
        for name, kept in self.new.items():
            if name not in self.old and name not in partners:
                yield f"new state, which begins empty: {kept.called} ({_names(kept.states)})"

    def _partner_of(self, kept: Kept, taken: set[str]) -> Kept | None:
        others = [
            other
            for name, other in self.new.items()
            if name not in self.old and name not in taken and other.states.keys() & kept.states.keys()
        ]
        return next((other for other in others if other.name == kept.name), next(iter(others), None))

    def _changes(self, here: Kept, there: Kept) -> Iterator[str]:
        """Yield what is different in an operator that finds its state."""
        gone = [state for state in here.states if state not in there.states]
        added = [state for state in there.states if state not in here.states]
        if gone:
            yield (
                f"state dropped: {here.called} no longer reads {_names(gone)}, without a refusal: its"
                " checkpoints carry it along"
            )
        if added:
            yield f"new state, which begins empty: {here.called} ({_names(added)})"
        for state, before in here.states.items():
            after = there.states.get(state, before)
            for what, one, other in (
                ("kind", before.kind, after.kind),
                ("key", before.key, after.key),
                ("window", before.namespace, after.namespace),
                ("type", before.value, after.value),
            ):
                if one != other:
                    shown = (one, other) if what == "kind" else tuple(map(_type, (one, other)))
                    yield (
                        f"{_name(state)} of {here.called}: its {what} was {shown[0]} and is {shown[1]}:"
                        f" {self._outcome(state)}"
                    )
        if here.keys and there.keys and here.keys != there.keys:
            one, other = _some(here.keys - there.keys), _some(there.keys - here.keys)
            yield (
                f"the keys or windows of {here.called} differ on the same records: {one} in the old version"
                f" only, {other} in the new one only; state stays under the old ones"
            )

    def _outcome(self, state: str) -> str:
        return "it does not migrate" if repr(state) in self.refusals else "it migrates"


def _dropped(kept: Kept, partner: Kept | None, is_sink: bool, *, is_allowed: bool) -> str:
    why = "the new version has no such operator"
    if partner is not None and (kept.uid or partner.uid):
        why = f"its uid was {kept.uid or 'not given'} and is {partner.uid or 'not given'}"
    elif partner is not None:
        why = "it has no uid, and its place in the graph is another: give it a uid"
    outcome = "is left behind, as allowed" if is_allowed else f"makes a restore fail without {ALLOW}"
    sentence = f"state dropped: {kept.called} ({_names(kept.states)}): {why}; it {outcome}"
    if is_sink:
        sentence += (
            "; what its transactions hold is lost, unless the old version is stopped with a savepoint, which"
            " commits them"
        )
    return sentence


def _name(state: str) -> str:
    timers = next((text for prefix, text in _TIMERS.items() if state.startswith(prefix)), None)
    return timers or f"state {state!r}"


def _names(states: Iterable[str]) -> str:
    return joined(list(dict.fromkeys(map(_name, states))))


def _type(descriptor: Any) -> str:
    return "none" if descriptor is None else describe(descriptor)


def _some(keys: Iterable[str]) -> str:
    shown = sorted(keys)
    return ", ".join(shown[:_SHOWN_KEYS]) + (", ..." if len(shown) > _SHOWN_KEYS else "") or "none"


# Parallelism.


class Size(NamedTuple):
    """How many subtasks and key groups an operator has as its program says."""

    parallelism: int
    max_parallelism: int
    is_explicit: bool


def sizes_of(graph: JobGraph) -> dict[str, Size]:
    """Return the sizes of the operators by their id."""
    return {
        node.operator_id: Size(vertex.parallelism, vertex.max_parallelism, vertex.max_parallelism_is_explicit)
        for vertex in graph.vertices
        for node in vertex.operators
    }


def refused_size(
    metadata: CheckpointMetadata, old: Mapping[str, Size], new: Mapping[str, Size]
) -> str | None:
    """Return why the engine would refuse the state at the programs' own parallelism; None: it does not."""
    operators = tuple(
        [
            msgspec.structs.replace(operator, max_parallelism=old[operator.operator_id].max_parallelism)
            for operator in metadata.operators
            if operator.operator_id in old
        ]
    )
    try:
        effective_max_parallelism(
            msgspec.structs.replace(metadata, operators=operators),
            [(name, *size) for name, size in new.items()],
        )
    except RestoreRefused as refused:
        return str(refused).partition(", ")[2]
    return None


def size_lines(kept: Sequence[Kept], old: Mapping[str, Size], new: Mapping[str, Size]) -> Iterator[str]:
    """Yield one sentence for each operator with state whose parallelism changes."""
    for each in kept:
        before, after = old.get(each.operator_id), new.get(each.operator_id)
        if before and after and before.parallelism != after.parallelism:
            yield (
                f"parallelism of {each.called}: {before.parallelism}, then {after.parallelism}, of at most"
                f" {before.max_parallelism}"
            )
