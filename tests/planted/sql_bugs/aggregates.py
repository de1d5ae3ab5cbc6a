"""Planted bugs in aggregates of groups: in one phase, and in bundles of two and three phases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from onceproof.engine.table.aggregates.extremes import RetractedExtreme
from onceproof.engine.table.nodes.group_aggregate import Groups
from onceproof.engine.table.nodes.mini_batch import GlobalAggregate, IncrementalAggregate, LocalAggregate
from onceproof.engine.table.operators import TableContext
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant
from tests.planted.sql_bugs.attempts import meets_first, script

LOGINS: Final = script("logins")
SALES: Final = script("sales")
STANDINGS: Final = script("standings")
TOTALS: Final = script("totals")


def _with_groups(change: Any) -> Any:
    """Return a patch that gives ``change`` each group that an attempt reads and has not made."""
    start, stored = Groups.start, Groups.stored

    def starting(self: Any, context: Any) -> None:
        start(self, context)
        self.backend = context.backend

    def reading(self: Any) -> Any:
        group = stored(self)
        if meets_first(self, self.backend.current_key) and group is not None:
            change(self, group)
        return group

    def patched() -> Iterator[None]:
        with replaced(Groups, "start", starting), replaced(Groups, "stored", reading):
            yield

    return patched()


@mutant(
    id="restored-group-begins-anew",
    breaks="exactly_once",
    summary="an aggregate takes the first group that it meets after a restore for a new one",
    families=(TOTALS,),
)
def restored_group_begins_anew(reached: Reached) -> Iterator[None]:
    """What was added before the restore is not in its results."""
    stored = Groups.stored

    def forgetting(self: Any) -> Any:
        group = stored(self)
        is_first = not getattr(self, "has_begun", False)
        self.has_begun = True
        if group is not None and is_first:
            reached()
            return None
        return group

    with replaced(Groups, "stored", forgetting):
        yield


@mutant(
    id="restored-group-has-lost-its-distinct-values",
    origin="StreamFusion#221",
    breaks="exactly_once",
    summary="a checkpoint takes the values of DISTINCT out of an accumulator, and only the results come back",
    families=(STANDINGS,),
)
def restored_group_has_lost_its_distinct_values(reached: Reached) -> Iterator[None]:
    """A value that was there before counts again."""

    def emptied(groups: Any, group: Any) -> None:
        for unit, accumulator in zip(groups.aggregates.units, group.accumulators, strict=True):
            if unit.is_distinct and accumulator[0]:
                reached()
                accumulator[0] = {}

    yield from _with_groups(emptied)


@mutant(
    id="restored-group-counts-one-row",
    breaks="exactly_once",
    summary="a restored group takes itself for one row, whose retraction ends it",
    families=(STANDINGS,),
)
def restored_group_counts_one_row(reached: Reached) -> Iterator[None]:
    """The row of the group is deleted while there are others."""

    def counted(groups: Any, group: Any) -> None:
        if group.count > 1:
            reached()
            group.count = 1

    yield from _with_groups(counted)


@mutant(
    id="restored-maximum-knows-no-second",
    breaks="exactly_once",
    summary="of the values that MIN and MAX keep for retractions only the extreme one is restored",
    families=(STANDINGS,),
)
def restored_maximum_knows_no_second(reached: Reached) -> Iterator[None]:
    """When it is retracted, no other value takes its place."""

    def cut(groups: Any, group: Any) -> None:
        for unit, accumulator in zip(groups.aggregates.units, group.accumulators, strict=True):
            if isinstance(unit.aggregate, RetractedExtreme) and accumulator[1] > 1:
                reached()
                extreme, _, counts = accumulator
                accumulator[1:] = [1, {extreme: counts[extreme]}]

    yield from _with_groups(cut)


def _over_the_barrier(reached: Reached, owner: type) -> Iterator[None]:
    def keeping(self: Any, emit: Any) -> None:
        if self._bundle:
            reached()

    with replaced(owner, "before_barrier", keeping):
        yield


@mutant(
    id="local-bundle-crosses-the-barrier",
    breaks="exactly_once",
    summary="the first phase does not end its bundle before a barrier, and the bundle is in no checkpoint",
    families=(SALES,),
)
def local_bundle_crosses_the_barrier(reached: Reached) -> Iterator[None]:
    """Its rows are lost with the attempt."""
    yield from _over_the_barrier(reached, LocalAggregate)


@mutant(
    id="merged-bundle-crosses-the-barrier",
    breaks="exactly_once",
    summary="the last phase does not end its bundle before a barrier",
    families=(SALES,),
)
def merged_bundle_crosses_the_barrier(reached: Reached) -> Iterator[None]:
    """What first phases have sent is lost with the attempt."""
    yield from _over_the_barrier(reached, GlobalAggregate)


@mutant(
    id="bundle-before-a-barrier-has-one-key",
    breaks="exactly_once",
    summary="a bundle that ends before a barrier is stored under the key of the last change",
    families=(SALES,),
)
def bundle_before_a_barrier_has_one_key(reached: Reached) -> Iterator[None]:
    """Groups take each other's place. A run with checkpoints and without faults shows it as well."""

    def under_one(self: Any, emit: Any) -> None:
        collected = self.take()
        if len(collected) > 1:
            reached()
        for _, each in collected:
            self.end(each, emit)

    with replaced(GlobalAggregate, "before_barrier", under_one):
        yield


@mutant(
    id="restored-buckets-have-no-values",
    origin="risingwave#9364",
    breaks="exactly_once",
    summary="the phase between counts a value again that a bucket of DISTINCT had before a restore",
    families=(SALES,),
)
def restored_buckets_have_no_values(reached: Reached) -> Iterator[None]:
    """The last phase adds the same customer twice."""
    merge = IncrementalAggregate._merge

    def forgetting(self: Any, group: Any, more: Any) -> None:
        if meets_first(self, self._backend.current_key) and self._seen.value():
            reached()
            self._seen.clear()
        merge(self, group, more)

    with replaced(IncrementalAggregate, "_merge", forgetting):
        yield


@mutant(
    id="time-to-live-is-taken-for-seconds",
    breaks="exactly_once",
    summary="state lives for the thousandth part of its time",
    families=(LOGINS,),
)
def time_to_live_is_taken_for_seconds(reached: Reached) -> Iterator[None]:
    """A group that has not been met for some seconds begins anew. Time passes without a fault, too."""
    sound = TableContext._state

    def short(self: Any, descriptor: Any, ttl_ms: int) -> Any:
        if ttl_ms:
            reached()
        return sound(self, descriptor, ttl_ms // 1000)

    with replaced(TableContext, "_state", short):
        yield


@mutant(
    id="time-to-live-of-a-node-is-ignored",
    breaks="exactly_once",
    summary="state of a node with a time to live of its own never expires",
    families=(LOGINS,),
)
def time_to_live_of_a_node_is_ignored(reached: Reached) -> Iterator[None]:
    """A group lives on that should have begun anew."""
    sound = TableContext._state

    def endless(self: Any, descriptor: Any, ttl_ms: int) -> Any:
        if ttl_ms:
            reached()
        return sound(self, descriptor, 0)

    with replaced(TableContext, "_state", endless):
        yield
