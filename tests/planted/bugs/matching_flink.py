"""Mutants of what Flink does and few expect: None in state, emptied windows, settings in force."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from onceproof.engine.api import job_description
from onceproof.engine.graph import InForce
from onceproof.engine.operators.window import WindowOperator
from onceproof.engine.operators.window_parts import timestamped
from onceproof.engine.state.states import KeyedMapState
from onceproof.engine.types import dynamic
from onceproof.engine.types.composite import ListType
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="operators-follow-the-environment",
    breaks="exactly_once",
    summary="an operator takes the parallelism that the environment has at the end, not when it was created",
    families=("even_sums",),
)
def operators_follow_the_environment(reached: Reached) -> Iterator[None]:
    """The subtasks of an operator that needs to be alone number the same rows."""

    def nothing_in_force(*settings: Any) -> InForce:
        reached()
        return InForce()

    with replaced(job_description, "InForce", nothing_in_force):
        yield


@mutant(
    id="emptied-windows-do-not-fire",
    breaks="exactly_once",
    summary="a window that folds its records gives no result where an evictor has left none",
    families=("even_sums",),
)
def emptied_windows_do_not_fire(reached: Reached) -> Iterator[None]:
    """Flink calls the function with the result of an empty accumulator."""
    call = WindowOperator._call_function_with_evictor

    def silent(self: Any, key: Any, window: Any, held: Any) -> Any:
        left = timestamped(held)
        self.settings.evictor.evict_before(left, len(left), window, self._context)
        emitted = call(self, key, window, held)
        if left or self._fold is None:
            return emitted
        reached()
        return []

    with replaced(WindowOperator, "_call_function_with_evictor", silent):
        yield


@mutant(
    id="elements-of-none-are-dropped",
    breaks="exactly_once",
    summary="a list is stored without its elements that are None",
    families=("last_words",),
)
def elements_of_none_are_dropped(reached: Reached) -> Iterator[None]:
    """It shows after a restore."""
    prepare = ListType.prepare

    def without_none(
        self: ListType, values: Collection[Any], allow_pickle: bool = False
    ) -> Callable[[Any], Any]:
        pack = prepare(self, values, allow_pickle) or list

        def pack_some(value: list[Any]) -> Any:
            if None in value:
                reached()
            return pack([item for item in value if item is not None])

        return pack_some

    with replaced(ListType, "prepare", without_none):
        yield


@mutant(
    id="map-state-skips-the-key-none",
    breaks="exactly_once",
    summary="the put of a MapState does nothing for the key None",
    families=("last_words",),
)
def map_state_skips_the_key_none(reached: Reached) -> Iterator[None]:
    """Flink's serializer of texts writes null, and so its maps take it as a key."""
    put = KeyedMapState.put

    def put_some(self: KeyedMapState, key: Any, value: Any) -> None:
        if key is None:
            reached()
        else:
            put(self, key, value)

    with replaced(KeyedMapState, "put", put_some):
        yield


@mutant(
    id="tuples-come-back-as-lists",
    breaks="exactly_once",
    summary="a tuple in a state of type PICKLED_BYTE_ARRAY is a list after a restore",
    families=("last_words",),
)
def tuples_come_back_as_lists(reached: Reached) -> Iterator[None]:
    """A form that knows lists only is not enough for what pickle would have kept apart."""
    pack = dynamic.pack

    def listed(value: Any) -> Any:
        if type(value) is tuple:
            reached()
            value = list(value)
        return pack(value)

    with replaced(dynamic, "pack", listed):
        yield
