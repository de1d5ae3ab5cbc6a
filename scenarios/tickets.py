"""Tickets: numbered by one operator, counted by another, and the two numbers of a ticket must agree.

The machine keeps the last number of each service in operator state, a list state outside of any key. Its
elements are changed in place and new ones are added between two checkpoints, so a snapshot that shares the
list, or an element of it, with the running job shows here. There is one machine, since a running number needs
one place; so the source has one subtask, whatever the scenario says, and reads all splits. The desks keep a
dict, changed in place, too.

The machine prints tickets in strips, which are torn off when they are long enough, before each checkpoint and
at the end: an operator that emits records ahead of the barrier, in buffers of several records.

Each row holds both numbers. They differ when a checkpoint holds machine and desks as of different moments.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from onceproof.engine.elements import Record
from onceproof.engine.functions import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
)
from onceproof.engine.operators.base import Operator
from onceproof.engine.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, JobIO, Records, Role, Rows, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "tickets"
generator_version = 1
# Machine and strips are chained to the source: one vertex, named for all.
tasks: dict[str, Role] = {"door -> machine -> strips": "source", "desks": "keyed", "ledger": "sink"}
record_schema = "service STRING"
row_schema = "service STRING, ticket BIGINT, served BIGINT"
oracle_sql = """
SELECT scenario_id, service, number AS ticket, number AS served
FROM (
  SELECT *, row_number() OVER (PARTITION BY scenario_id, service ORDER BY split, offset) AS number
  FROM records
)
"""

SERVICES = ("a-pay", "a-ask", "b-buy", "b-sell", "c-send", "c-fetch", "d-move", "d-stay")
"""The first letter of a service is its desk."""

STRIP = 3


def generate(random: Random) -> Workload:
    """Draw 1 to 3 queues of people, each wanting one service."""
    chance = Chance(random)
    queues = chance.weighted([(1, 2), (2, 4), (3, 2)])
    services = SERVICES[: chance.weighted([(1, 1), (2, 2), (4, 3), (8, 3)])]
    longest = chance.weighted([(4, 1), (16, 4), (40, 3)])
    unit, count = random.random, len(services)
    records = {
        f"queue-{queue}": tuple(
            [(7 * place, services[int(unit() * count)]) for place in range(int(unit() * (longest + 1)))]
        )
        for queue in range(queues)
    }
    return Workload(records, {"queues": queues, "services": count}, source_parallelism=1)


class Machine(MapFunction, CheckpointedFunction):
    """Gives each service's tickets the numbers 1, 2, 3; an element of its state is [service, last number]."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Take the numbers from the checkpoint."""
        self._state = context.get_operator_state_store().get_list_state(ListStateDescriptor("last"))
        self._last = {entry[0]: entry for entry in self._state.get()}

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Do nothing: ``map`` changes the elements of the state in place."""

    def map(self, value: str) -> tuple[str, int]:
        """Number the ticket."""
        entry = self._last.get(value)
        if entry is None:
            entry = self._last[value] = [value, 0]
            self._state.add(entry)
        entry[1] += 1
        return value, entry[1]


class Strips(Operator):
    """Holds back up to STRIP tickets; it needs no state, since it holds none over a checkpoint."""

    def __init__(self) -> None:
        self._strip: list[Record] = []

    def process_batch(self, records: list[Record], input_index: int) -> list[Record]:
        self._strip += records
        return self._tear_off() if len(self._strip) >= STRIP else []

    def prepare_snapshot(self, checkpoint_id: int) -> list[Record]:
        """Emit the tickets that are held, ahead of the barrier."""
        return self._tear_off()

    def finish(self) -> list[Record]:
        """Emit the tickets that are held, at the end of the input."""
        return self._tear_off()

    def _tear_off(self) -> list[Record]:
        strip, self._strip = self._strip, []
        return strip


class Desk(KeyedProcessFunction):
    """Counts the tickets that a desk has served of each service."""

    def open(self, runtime_context: RuntimeContext) -> None:
        counts = Types.MAP(Types.STRING(), Types.LONG())
        self._served = runtime_context.get_state(ValueStateDescriptor("served", counts))

    def process_element(
        self, value: tuple[str, int], ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[str, int, int]]:
        service, ticket = value
        served = self._served.value()
        if served is None:
            served = {}
        served[service] = number = served.get(service, 0) + 1
        # On the heap backend the dict was changed in place; a database backend needs the update.
        self._served.update(served)
        yield service, ticket, number


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build door -> machine -> strips -> desks -> ledger, the last two edges keyed by the desk."""
    ticket = Types.TUPLE([Types.STRING(), Types.LONG()])
    numbered = (
        env.from_source(io.source("door"), None, "door")
        .uid("door")
        .set_parallelism(1)
        .map(Machine(), ticket)
        .name("machine")
        .uid("machine")
        .set_parallelism(1)
    )
    # A function cannot emit ahead of a barrier; an operator can.
    strips = numbered.transform("strips", ticket, Strips)
    desks = (
        strips.name("strips")
        .uid("strips")
        .set_parallelism(1)
        .key_by(_desk, Types.STRING())
        .process(Desk(), Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()]))
        .name("desks")
        .uid("desks")
        .set_parallelism(io.parallelism)
    )
    ledger = desks.key_by(_desk, Types.STRING()).add_sink(io.sink("ledger"))
    ledger.name("ledger").uid("ledger").set_parallelism(io.sink_parallelism)


def _desk(value: tuple[str, ...]) -> str:
    return value[0][0]


def expected(records: Records, declared: Declared) -> Rows:
    """Number the tickets of each service."""
    numbers: dict[object, int] = {}
    rows = []
    for queue in records.values():
        for _, service in queue:
            numbers[service] = number = numbers.get(service, 0) + 1
            rows.append((service, number, number))
    return rows
