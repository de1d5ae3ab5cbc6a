"""Rolling sums and extremes of each sensor: ``sum``, ``min``, ``max``, ``min_by`` and ``max_by`` over rows.

``sum``, ``min`` and ``max`` keep the other fields of the sensor's first reading, ``min_by`` and ``max_by``
those of the extreme one, of equals the first. So the place in a row shows from which reading it is, and a
reading that is lost or counts twice shows in the sum.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from onceproof.engine.types import Row, Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, FamilyOptions, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import (
    LABELLED_KEY,
    LabelledSource,
    draw_keyed,
    into_table,
    label_and_key,
    named,
)

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "rolling_readings"
generator_version = 1
tasks: dict[str, Role] = {
    "readings -> row": "source",
    "sum -> named sum": "keyed",
    "min -> named min": "keyed",
    "max -> named max": "keyed",
    "min_by -> named min_by": "keyed",
    "max_by -> named max_by": "keyed",
    "table": "sink",
}
record_schema = "sensor STRING, place BIGINT, celsius BIGINT"
row_schema = "split STRING, sensor STRING, kind STRING, place BIGINT, celsius BIGINT"
oracle_sql = """
WITH rolling AS (
  SELECT scenario_id, split, sensor,
    first(place) OVER so_far AS first,
    sum(celsius) OVER so_far AS total, min(celsius) OVER so_far AS least, max(celsius) OVER so_far AS most,
    min(struct(celsius, offset, place)) OVER so_far AS lowest,
    max(struct(celsius, -offset, place)) OVER so_far AS highest
  FROM records
  WINDOW so_far AS (
    PARTITION BY scenario_id, split, sensor ORDER BY offset ROWS UNBOUNDED PRECEDING
  )
)
SELECT scenario_id, split, sensor, 'sum' AS kind, first AS place, total AS celsius FROM rolling
UNION ALL SELECT scenario_id, split, sensor, 'min', first, least FROM rolling
UNION ALL SELECT scenario_id, split, sensor, 'max', first, most FROM rolling
UNION ALL SELECT scenario_id, split, sensor, 'min_by', lowest.place, lowest.celsius FROM rolling
UNION ALL SELECT scenario_id, split, sensor, 'max_by', highest.place, highest.celsius FROM rolling
"""

SENSORS = ("attic", "cellar", "hall", "kitchen", "porch")
READING = Types.ROW_NAMED(
    ["split", "sensor", "place", "celsius"], [Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG()]
)
ROW = Types.TUPLE([Types.STRING(), Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG()])


def generate(random: Random) -> Workload:
    """Draw few different temperatures, so that equal extremes occur."""
    return draw_keyed(random, SENSORS, _reading)


def _reading(chance: Chance, sensor: str, now: int) -> tuple[str, int, int]:
    return sensor, now, chance.integer(-6, 6)


def _row(value: tuple[str, str, int, int]) -> Row:
    split, sensor, place, celsius = value
    return Row(split=split, sensor=sensor, place=place, celsius=celsius)


class Named:
    """Adds to a reading the name of the aggregation that it comes from."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __call__(self, reading: Row) -> tuple[str, str, str, int, int]:
        split, sensor, place, celsius = reading
        return split, sensor, self._kind, place, celsius


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build readings -> five rolling aggregations -> table."""
    source = env.from_source(LabelledSource(io.source("readings")), None, "readings").uid("readings")
    readings = source.set_parallelism(io.source_parallelism).map(_row, READING).name("row").uid("row")
    keyed = readings.set_parallelism(io.source_parallelism).key_by(label_and_key, LABELLED_KEY)
    rolling = {
        "sum": keyed.sum("celsius"),
        "min": keyed.min("celsius"),
        "max": keyed.max("celsius"),
        "min_by": keyed.min_by("celsius"),
        "max_by": keyed.max_by("celsius"),
    }
    first, *others = [
        named(named(stream, kind, io).map(Named(kind), ROW), f"named {kind}", io)
        for kind, stream in rolling.items()
    ]
    into_table(first.union(*others), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Follow the readings of each sensor."""
    rows: list[tuple[Any, ...]] = []
    for split, values in records.items():
        sensors: dict[Any, list[tuple[int, int]]] = {}
        for _, value in values:
            assert isinstance(value, tuple)
            sensor, place, celsius = value
            seen = sensors.setdefault(sensor, [])
            seen.append((int(place or 0), int(celsius or 0)))
            numbers = [number for _, number in seen]
            first, least, most = seen[0][0], min(numbers), max(numbers)
            rows += [
                (split, sensor, "sum", first, sum(numbers)),
                (split, sensor, "min", first, least),
                (split, sensor, "max", first, most),
                (split, sensor, "min_by", *seen[numbers.index(least)]),
                (split, sensor, "max_by", *seen[numbers.index(most)]),
            ]
    return rows


options = FamilyOptions(any_backend=True)
