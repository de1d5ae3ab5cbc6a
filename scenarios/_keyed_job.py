"""What the small keyed families share: a labelled source, one keyed operator, a sink, and drawn input.

Their jobs are records -> (the operator of the family) -> table, both edges keyed by the split and the first
column of the value. So the order of a key's records is fixed, and so are the rows at every cut of the input.

Where the order of a key's records decides the result, all of them must come from one split, since two splits
race each other. A family makes the label, the name of the split, a part of the key. The value in the scenario
does not hold it, so a record that the shrinker moves to another split gets another key there, and the order
stays fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from onceproof.engine.connectors.source import (
    ForwardingReader,
    Source,
    SourceIdentity,
    SplitDiscovery,
    SplitReader,
)
from onceproof.engine.functions import AggregateFunction, MapFunction, RuntimeContext
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import JobIO, Records, Workload

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import DataStream, KeyedStream, StreamExecutionEnvironment
    from onceproof.engine.elements import Record
    from onceproof.harness.model.scenario import RecordValue


Placing: TypeAlias = Callable[[str, Any], tuple[Any, ...]]
"""Returns a value with its label: called with (label, value)."""


def label_of(split: str) -> str:
    """Return the label of a split: its name; of a file its name without folder and ending."""
    return split.rpartition("/")[2].partition(".")[0]


def label_first(label: str, value: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the value with the label as its first column."""
    return label, *value


class LabelledSource(Source):
    """Reads another source and adds to each value the label of its split."""

    def __init__(self, source: Source, placing: Placing = label_first) -> None:
        self._source = source
        self._placing = placing

    def splits(self) -> Sequence[str]:
        return self._source.splits()

    def open_split(self, split: str, position: Any | None) -> SplitReader:
        return _LabellingReader(self._source.open_split(split, position), label_of(split), self._placing)

    def identity(self) -> SourceIdentity:
        return self._source.identity()


class GrowingSource(LabelledSource):
    """Begins with some of the splits, and finds the others while the job runs, where the source below can.

    A split that comes late changes no row of a job without event time.
    """

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.is_bounded = source.is_bounded
        self.can_discover = source.can_discover
        self.discovery_interval_ms = source.discovery_interval_ms

    def splits_for(self, parallelism: int) -> Sequence[str]:
        splits = sorted(self.splits())
        return splits if self.discovery_interval_ms is None else splits[: (len(splits) + 1) // 2]

    def owner_of(self, split: str, parallelism: int) -> int | None:
        return self._source.owner_of(split, parallelism)

    def start_discovery(self, discovery: SplitDiscovery, interval_ms: int) -> None:
        self._source.start_discovery(discovery, interval_ms)


class _LabellingReader(ForwardingReader):
    def __init__(self, reader: SplitReader, label: str, placing: Placing) -> None:
        super().__init__(reader)
        self._label = label
        self._placing = placing

    def read(self, limit: int) -> list[Record]:
        label, placing = self._label, self._placing
        return [(placing(label, value), timestamp) for value, timestamp in self._reader.read(limit)]


class Count(AggregateFunction):
    """Counts elements."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: object, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


def plus(first: int, second: int) -> int:
    return first + second


LABELLED_KEY: Final = Types.TUPLE([Types.STRING(), Types.STRING()])


def label_and_key(value: tuple[Any, ...]) -> tuple[str, str]:
    return value[0], value[1]


def keyed_records(env: StreamExecutionEnvironment, io: JobIO, source: str) -> KeyedStream:
    """Read the records of the source ``source``, keyed by split and first column."""
    records = env.from_source(GrowingSource(io.source(source)), None, source).uid(source)
    return records.set_parallelism(io.source_parallelism).key_by(label_and_key, LABELLED_KEY)


def named(stream: DataStream, name: str, io: JobIO) -> DataStream:
    """Set name and uid of a keyed operator, and the scenario's parallelism."""
    return stream.name(name).uid(name).set_parallelism(io.parallelism)


def into_table(stream: DataStream, io: JobIO) -> None:
    """End the job in a sink, keyed like the operator before it."""
    table = stream.key_by(label_and_key, LABELLED_KEY).add_sink(io.sink("table"))
    table.name("table").uid("table").set_parallelism(io.sink_parallelism)


class Place(MapFunction):
    """Numbers the values of each split and key from 1: (split, key, ...) becomes (split, key, place, ...)."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._place = runtime_context.get_state(ValueStateDescriptor("place", Types.LONG()))

    def map(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        split, key, *rest = value
        place = (self._place.value() or 0) + 1
        self._place.update(place)
        return split, key, place, *rest


def draw_keyed(
    random: Random, keys: Sequence[str], value_of: Callable[[Chance, str, int], RecordValue], gap_ms: int = 10
) -> Workload:
    """Draw up to four splits with records of some of ``keys``, in the order of their timestamps.

    Some splits hold much more than others and some hold nothing; one key may have all records of a split.
    ``value_of`` gets the key and the timestamp; neighbours are 0 to ``gap_ms`` milliseconds apart.
    """
    chance = Chance(random)
    splits = chance.weighted([(1, 2), (2, 3), (3, 2), (4, 2)])
    taken = keys[: chance.weighted([(1, 2), (2, 3), (3, 3), (len(keys), 2)])]
    total = chance.weighted(
        [(chance.integer(0, 9), 1), (chance.integer(10, 40), 5), (chance.integer(41, 80), 3)]
    )
    hot = chance.chance(0.3)
    wheel = [split for split in range(splits) for _ in range(chance.weighted([(0, 1), (1, 3), (4, 2)]))] or [
        0
    ]
    drawn: list[list[tuple[int, RecordValue]]] = [[] for _ in range(splits)]
    now = [0] * splits
    for _ in range(total):
        split = chance.choice(wheel)
        key = taken[0] if chance.unit() < 0.8 and hot else chance.choice(taken)
        now[split] += chance.integer(0, gap_ms)
        drawn[split].append((now[split], value_of(chance, key, now[split])))
    records = {f"part-{index}": tuple(split) for index, split in enumerate(drawn)}
    return Workload(records, {"records": total, "keys": len(taken), "splits": splits})


def groups_of(size: int, records: Records) -> Iterator[tuple[str, RecordValue, int, list[int]]]:
    """Yield each ``size`` values in a row of a key: split, key, number of the last one, and the values.

    A record is a pair of key and number. Values are numbered from 1; a group that is not full is left out.
    """
    for split, values in records.items():
        numbers: dict[object, list[int]] = {}
        for _, value in values:
            assert isinstance(value, tuple)
            so_far = numbers.setdefault(value[0], [])
            so_far.append(int(value[1] or 0))
            if len(so_far) % size == 0:
                yield split, value[0], len(so_far), so_far[-size:]
