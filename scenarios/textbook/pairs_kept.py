"""Every two elements together, by a flat map in mid-job with operator state: a list, or a union list.

A failure loses nothing, because each checkpoint holds the element that waits. A plain list state is dealt out
over the subtasks after a rescale. Of a union list state each subtask gets all elements: it keeps its share of
them, or every element would be there several times.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, ClassVar

from onceproof.engine import (
    CheckpointedFunction,
    FlatMapFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    ListStateDescriptor,
    RuntimeContext,
    StreamExecutionEnvironment,
    Types,
)
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._buffering import MOST_SUBTASKS
from onceproof.scenarios.textbook import _pairs_on_trial as pairs_on_trial
from onceproof.scenarios.textbook.pairs_plain import ELEMENT, ELEMENTS, PAIR, Element

if TYPE_CHECKING:
    from onceproof.engine import DataStream


class PairUp(FlatMapFunction, CheckpointedFunction):
    """Collects elements; at two it emits them together.

    Args:
        union: whether the state is a union list.
    """

    def __init__(self, union: bool = False) -> None:
        self._union = union

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Take the elements that are this subtask's."""
        store = context.get_operator_state_store()
        descriptor = ListStateDescriptor("elements", ELEMENT)
        self._state = (
            store.get_union_list_state(descriptor) if self._union else store.get_list_state(descriptor)
        )
        self._elements: list[Element] = list(self._state.get())

    def open(self, runtime_context: RuntimeContext) -> None:
        """Of a union list, keep the share of this subtask."""
        if self._union:
            index = runtime_context.get_index_of_this_subtask()
            self._elements = self._elements[index :: runtime_context.get_number_of_parallel_subtasks()]

    def flat_map(self, value: Element) -> Iterator[tuple[Element, Element]]:
        self._elements.append(value)
        # After a rescale there may be more than two.
        while len(self._elements) >= PAIR:
            one, other = self._elements[:PAIR]
            del self._elements[:PAIR]
            yield one, other

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self._state.update(self._elements)


def build(elements: DataStream, union: bool = False) -> DataStream:
    """Put a stream of elements into pairs."""
    return elements.flat_map(PairUp(union), Types.TUPLE([ELEMENT, ELEMENT]))


def main(arguments: Sequence[str] = ()) -> None:
    """Print the pairs of four elements; with the argument ``union`` from a union list state."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    build(env.from_collection(ELEMENTS, ELEMENT), "union" in arguments).print()
    env.execute("pairs in operator state")


# On trial.


@dataclass(frozen=True)
class KeptPairs:
    """The family of one kind of list."""

    name: str
    union: bool
    generator_version: ClassVar[int] = 1
    options: ClassVar[FamilyOptions] = FamilyOptions(declares=True, any_backend=True)
    tasks: ClassVar[Mapping[str, Role]] = {"elements": "source", "pairs -> row": "keyed", "table": "sink"}
    record_schema: ClassVar[str] = pairs_on_trial.RECORD_SCHEMA
    row_schema: ClassVar[str] = pairs_on_trial.ROW_SCHEMA
    oracle_sql: ClassVar[str] = pairs_on_trial.pairs_sql(MOST_SUBTASKS)

    def generate(self, random: Random) -> Workload:
        """Draw elements."""
        return pairs_on_trial.draw(random)

    def job(self, env: StreamExecutionEnvironment, io: JobIO) -> None:
        """Build elements -> pairs -> table."""
        elements = env.from_source(io.source("elements"), None, "elements", ELEMENT).uid("elements")
        elements = elements.set_parallelism(io.source_parallelism).rebalance()
        pairs = build(elements, self.union).name("pairs").uid("pairs").set_parallelism(io.parallelism)
        row = Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING(), Types.LONG()])
        rows = pairs.map(lambda pair: (*pair[0], *pair[1]), row).name("row").uid("row")
        table = rows.set_parallelism(io.parallelism).rebalance().add_sink(io.sink("table"))
        table.name("table").uid("table").set_parallelism(io.sink_parallelism)

    def expected(self, records: Records, declared: Declared) -> Rows:
        """Accept the declared pairs; each subtask may have one element left."""
        return pairs_on_trial.expected_pairs(records, declared, MOST_SUBTASKS)


textbook_pairs = KeptPairs("textbook_pairs", union=False)
textbook_pairs_in_a_union_list = KeptPairs("textbook_pairs_in_a_union_list", union=True)

if __name__ == "__main__":
    main(sys.argv[1:])
