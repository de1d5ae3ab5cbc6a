"""The source and the sinks that a family's job gets in the simulation.

Rules:

- The rows of a lookup table never change, so a lookup that is made again finds the same.
- Answers take some time, by their key, so that they overtake each other. For some keys the database is away
  at first: the lookup fails a few times, in every attempt anew. What fails and how long an answer takes
  follows from the key alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self
from zlib import crc32

from onceproof.engine.connectors.jdbc.two_phase_database import DatabaseUnavailable
from onceproof.engine.connectors.rolling import RollingPolicy
from onceproof.engine.connectors.source import Source, SplitDiscovery, SplitReader
from onceproof.engine.elements import Record
from onceproof.engine.functions import Function, RuntimeContext
from onceproof.harness.model.scenario import Fault, InputRecord, Scenario
from onceproof.harness.systems.simulation.external_system import TransactionalSystem
from onceproof.harness.systems.simulation.neighbour import move_files_in, move_producers_in
from onceproof.harness.systems.simulation.prepared_transactions import PLACE
from onceproof.harness.systems.simulation.simulated_files import SimulatedFiles
from onceproof.harness.systems.simulation.simulated_object_store import (
    SimulatedObjectCalls,
    StoreTrouble,
)
from onceproof.harness.systems.simulation.simulated_sinks import (
    ROLLS,
    ROLLS_ALSO_BY_COUNT,
    SimulatedFileSink,
    SimulatedFolderSink,
    SimulatedSink,
    make_sink,
)
from onceproof.harness.systems.sinks import ROLLS_BY_COUNT, SinkKind, SinksByKind

FAILURES: Final = 3
"""How often a lookup fails that fails at first."""
LONGEST_ANSWER_MS: Final = 12
LOOKS_UNTIL_ALL_HAVE_COME: Final = 4
"""After so many looks all splits have come."""


class SimulatedLookup(Function):
    """Finds rows by their first column."""

    def __init__(self, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self._name = name
        self._rows = {row[0]: row for row in rows}
        self._failures: Counter[Any] = Counter()

    def open(self, runtime_context: RuntimeContext) -> None:
        self._failures = Counter()

    async def row_of(self, key: Any) -> tuple[Any, ...] | None:
        """Return the row with a key, or None. Raises DatabaseUnavailable, and may be asked again."""
        # Few families look up, and asyncio takes a tenth of the start of a process.
        from asyncio import sleep

        number = crc32(repr(key).encode())
        await sleep(number % (LONGEST_ANSWER_MS + 1) / 1000)
        if number % 3 == 0 and self._failures[key] < FAILURES:
            self._failures[key] += 1
            raise DatabaseUnavailable(f"lookup in table {self._name!r} of {PLACE}: it is away for a moment")
        return self._rows.get(key)


_ROLLS: Final[Mapping[SinkKind, RollingPolicy]] = {
    "files": ROLLS,
    "objects": ROLLS_ALSO_BY_COUNT,
    # The store of the simulation reads lines of JSON. Files of Parquet are tried over a real one.
    "parquet": ROLLS_BY_COUNT,
}
"""The kinds of sinks that write part files into the object store, and when these begin new ones."""


class SimulatedReader(SplitReader):
    """Reads one split of the scenario."""

    __slots__ = ("_log", "_position", "_records", "_split")

    def __init__(self, log: SimulatedLog, split: str, position: int) -> None:
        self._log = log
        self._split = split
        self._records = log.records[split]
        self._position = position

    def read(self, limit: int) -> list[Record]:
        """Return up to ``limit`` records."""
        position = self._position
        records = self._records[position : min(position + limit, self._log.available[self._split])]
        position += len(records)
        self._position = position
        self._log.read_up_to[self._split] = position
        return records

    @property
    def position(self) -> int:
        """The offset of the next record."""
        return self._position

    @property
    def exhausted(self) -> bool:
        """Whether the split is read out, and nothing more will come."""
        return self._position >= len(self._records) and self._log.is_bounded


class SimulatedLog(Source):
    """The scenario's splits as a replayable source, and how far each was last read."""

    def __init__(self, records: dict[str, tuple[InputRecord, ...]], *, is_bounded: bool = True) -> None:
        self.records: dict[str, list[Record]] = {
            split: [(value, timestamp) for timestamp, value in rows] for split, rows in records.items()
        }
        self.read_up_to: dict[str, int] = dict.fromkeys(records, 0)
        self.is_bounded = is_bounded
        self.can_discover = not is_bounded
        self.discovery_interval_ms = None if is_bounded else 1
        self._discoveries: list[SplitDiscovery] = []
        self._looks = 0
        """How often new splits were looked for."""
        self.available = {split: len(rows) for split, rows in records.items()}
        """By split, how many records have arrived; all of them, unless an ``EndlessInput`` says otherwise."""
        self.group: dict[str, int] = {}
        """By split, the offset that a `SimulatedTopic` has committed to its consumer group."""
        self._missing = ""
        self._is_short: Callable[[], bool] = _never
        """Whether the missing split is left out of the list."""

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def splits(self) -> Sequence[str]:
        """Return the names of all splits, or of all but one while the list is short."""
        if self._is_short():
            return [split for split in self.records if split != self._missing]
        return list(self.records)

    def owner_of(self, split: str, parallelism: int) -> int | None:
        """Return the subtask by a checksum of the split; None for input that ends, which is dealt out."""
        return None if self.is_bounded else crc32(split.encode()) % parallelism

    def start_discovery(self, discovery: SplitDiscovery, interval_ms: int) -> None:
        """Let it look with each call of ``find_splits``."""
        self._discoveries.append(discovery)

    def find_splits(self) -> bool:
        """Have all subtasks look for new splits, and return whether any has found some.

        What those of dead attempts find, no task takes.
        """
        self._looks += 1
        come = [split for split in self.splits() if _comes_with(split) <= self._looks]
        found = [discovery.look(come) for discovery in self._discoveries]
        return any(found)

    def offsets(self, positions: Mapping[str, Any]) -> Mapping[str, int]:
        """Return by split how many records are before the positions of its readers."""
        return positions

    def change(self, fault: Fault, cut: Mapping[str, int]) -> str:
        """Change the input that a checkpoint with a cut covers; return the name of what has changed.

        What is in memory does not change: the name is "".
        """
        return ""

    def shown(self, text: str) -> str:
        """Return a text of the job without what differs from run to run: where files of its input are."""
        return text

    def list_short(self, while_true: Callable[[], bool]) -> None:
        """Leave the split of which the most is left to read out of the list, while a condition holds."""
        self._missing = max(self.records, key=lambda split: len(self.records[split]) - self.read_up_to[split])
        self._is_short = while_true

    @property
    def is_read(self) -> bool:
        """Whether all records have been read."""
        return all(self.read_up_to[split] == len(records) for split, records in self.records.items())

    def open_split(self, split: str, position: Any | None) -> SplitReader:
        """Return a reader that begins at the offset ``position``, or at 0."""
        self.read_up_to[split] = position or 0
        return SimulatedReader(self, split, position or 0)


def _comes_with(split: str) -> int:
    """Return with which look a split comes."""
    return 1 + crc32(split.encode()) % LOOKS_UNTIL_ALL_HAVE_COME


def _never() -> bool:
    return False


def _folder_sink(system: TransactionalSystem) -> SimulatedFolderSink:
    return SimulatedFolderSink(SimulatedFiles(system))


def _object_sink(system: TransactionalSystem) -> SimulatedFileSink:
    """Return a sink into the store whose requests are never in trouble."""
    return SimulatedFileSink(SimulatedObjectCalls(system, StoreTrouble({}, system.request_lost)))


class PartitionReader(SimulatedReader):
    """Reads one partition of a topic."""

    __slots__ = ()

    def checkpoint_complete(self, position: int) -> None:
        """Commit the offset to the group."""
        self._log.group[self._split] = position


class SimulatedTopic(Source):
    """The scenario's splits as the partitions of a topic of Kafka.

    Readers commit the offsets of complete checkpoints to a consumer group, as those of the engine do. The
    group survives every process, and no restore reads it: it may lack the latest checkpoint.
    """

    hears_of_checkpoints = True

    def __init__(self, log: SimulatedLog) -> None:
        self.log = log
        self.is_bounded = log.is_bounded

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def splits(self) -> Sequence[str]:
        """Return the names of all splits."""
        return self.log.splits()

    def open_split(self, split: str, position: Any | None) -> PartitionReader:
        """Return a reader that begins at the offset ``position``, or at 0."""
        self.log.read_up_to[split] = position or 0
        return PartitionReader(self.log, split, position or 0)


class SimulatedIO(SinksByKind):
    """Gives a family's job its source and sinks, at a parallelism of its keyed operators."""

    __slots__ = (
        "_log",
        "_sinks",
        "has_sink",
        "parallelism",
        "parameters",
        "sink_parallelism",
        "source_parallelism",
        "system",
        "table_keys",
    )

    def __init__(
        self, scenario: Scenario, keyed: int, log: SimulatedLog, system: TransactionalSystem
    ) -> None:
        self.source_parallelism, self.parallelism, self.sink_parallelism = scenario.parallelisms(keyed)
        self.parameters = scenario.parameters
        self.table_keys = 0
        """The key columns by which the job that was built writes; 0 if it replaces no rows."""
        self.has_sink = False
        """Whether the job has asked for a sink."""
        self._log = log
        self.system = system
        self._sinks: list[str] = []
        """The names of the sinks so far."""

    def source(self, name: str) -> SimulatedLog:
        """Return the source of the scenario's splits."""
        return self._log

    def kafka_source(self, name: str) -> SimulatedTopic:
        """Return the source of the scenario's splits as that of a topic."""
        return SimulatedTopic(self._log)

    def postgres_lookup(self, name: str, rows: Sequence[tuple[Any, ...]]) -> SimulatedLookup:
        """Return a lookup in a table of the simulated database."""
        return SimulatedLookup(name, rows)

    def sink(self, name: str) -> SimulatedSink:
        """Return a two-phase-commit sink into the external system."""
        self.has_sink = True
        return SimulatedSink(self.system, self._place_of(name))

    def make_sink(self, kind: SinkKind, name: str, *, keys: int = 0) -> Any:
        """Return a new sink of a kind into the external system."""
        self.has_sink = True
        self.table_keys = self.table_keys or keys
        if (rolls := _ROLLS.get(kind)) is not None:
            # An object store without trouble would show nothing that objects_rolling does not.
            if kind == "files" and (self.system.has_consumer or self.parameters.get("trouble") == "none"):
                move_files_in(self.system, _folder_sink)
                return _folder_sink(self.system)
            return SimulatedFileSink(self._object_calls(), rolls)
        if kind == "kafka":
            move_producers_in(self.system)
        return make_sink(kind, self.system, self.parameters, keys, self._place_of(name))

    def _place_of(self, name: str) -> str:
        """Return what stands before the names of a sink's transactions: nothing, for the first of the job."""
        if name not in self._sinks:
            self._sinks.append(name)
        return f"{name}/" if name != self._sinks[0] else ""

    def _object_calls(self) -> SimulatedObjectCalls:
        """Return the requests to the object store, which all attempts share, and its neighbour."""
        system = self.system
        calls: SimulatedObjectCalls | None = system.object_calls
        if calls is None:
            calls = system.object_calls = SimulatedObjectCalls(
                system, StoreTrouble(self.parameters, system.request_lost)
            )
            move_files_in(system, _object_sink)
        return calls
