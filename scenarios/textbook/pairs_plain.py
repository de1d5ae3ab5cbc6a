"""Every two elements printed together by a sink with a plain list: a failure loses half a pair.

The list is in no checkpoint. After a restore the source goes on behind the checkpoint, and an element that
had come before it and waited in the list is gone. ``pairs_kept`` is the corrected twin.

The lesson is a family that is expected to fail::

    onceproof run scenarios/textbook/pairs_plain.py:lesson --scenarios 50
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

from onceproof.engine import SinkFunction, StreamExecutionEnvironment, Types
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._sink_around import SinkAround
from onceproof.scenarios.textbook import _pairs_on_trial as pairs_on_trial

if TYPE_CHECKING:
    from onceproof.engine import DataStream

Element: TypeAlias = tuple[str, int]

ELEMENTS: tuple[Element, ...] = (("spark", 3), ("hadoop", 5), ("hive", 7), ("flume", 9))
ELEMENT = Types.TUPLE([Types.STRING(), Types.LONG()])
"""The type of an element."""
PAIR = 2


class PairsInAList(SinkFunction):
    """Collects elements in a plain list; at two it writes them and clears the list.

    Args:
        write: takes each pair.
    """

    def __init__(self, write: Callable[[Any], Any] = print) -> None:
        self._write = write
        self._elements: list[Element] = []

    def invoke(self, value: Element, context: Any) -> None:
        self._elements.append(value)
        if len(self._elements) == PAIR:
            self._write(tuple(self._elements))
            self._elements.clear()


def build(elements: DataStream) -> None:
    """End a stream of elements in the sink."""
    elements.add_sink(PairsInAList())


def main() -> None:
    """Print the pairs of four elements."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    build(env.from_collection(ELEMENTS, ELEMENT))
    env.execute("pairs in a list")


# On trial.


class PairsIntoTable(SinkAround):
    """Gives the elements to ``PairsInAList``, whose pairs go to the sink of the harness."""

    def __init__(self, sink: Any) -> None:
        super().__init__(sink)
        self._pairs = PairsInAList(self._write_row)

    def _write_row(self, pair: tuple[Element, Element]) -> None:
        self._sink.invoke((*pair[0], *pair[1]), None)

    def invoke(self, value: Element, context: Any) -> None:
        self._pairs.invoke(value, context)


class Lesson:
    """The family of the program; its sink has one subtask, as in the textbook."""

    name = "lesson_pairs_in_a_list"
    generator_version = 1
    options = FamilyOptions(declares=True)
    tasks: Mapping[str, Role] = {"elements": "source", "pairs": "sink"}
    record_schema = pairs_on_trial.RECORD_SCHEMA
    row_schema = pairs_on_trial.ROW_SCHEMA
    oracle_sql = pairs_on_trial.pairs_sql(held_back=1)

    def generate(self, random: Random) -> Workload:
        """Draw elements."""
        return pairs_on_trial.draw(random)

    def job(self, env: StreamExecutionEnvironment, io: JobIO) -> None:
        """Build elements -> pairs."""
        elements = env.from_source(io.source("elements"), None, "elements", ELEMENT).uid("elements")
        pairs = elements.set_parallelism(io.source_parallelism).rebalance()
        pairs.add_sink(PairsIntoTable(io.sink("pairs"))).name("pairs").uid("pairs").set_parallelism(1)

    def expected(self, records: Records, declared: Declared) -> Rows:
        """Accept the declared pairs; at most one element is left."""
        return pairs_on_trial.expected_pairs(records, declared, held_back=1)


lesson = Lesson()

if __name__ == "__main__":
    main()
