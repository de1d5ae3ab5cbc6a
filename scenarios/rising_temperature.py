"""An alarm for each sensor whose temperature rises three times in a row.

Two ValueStates belong together: the last temperature, and how many times in a row it has risen. The count
starts again after an alarm and after any record that does not rise. A temperature of zero is a value; only
None means that there is none yet.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from onceproof.engine.functions import KeyedProcessFunction, RuntimeContext
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.types import Types
from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import Declared, JobIO, Records, Role, Rows, Workload
from onceproof.scenarios._keyed_job import draw_keyed, into_table, keyed_records, named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onceproof.engine.api.datastream import StreamExecutionEnvironment

name = "rising_temperature"
generator_version = 1
tasks: dict[str, Role] = {"sensors": "source", "alarms": "keyed", "table": "sink"}
record_schema = "sensor STRING, degrees BIGINT"
row_schema = "split STRING, sensor STRING, measured BIGINT, degrees BIGINT"
oracle_sql = """
SELECT scenario_id, split, sensor, place AS measured, degrees
FROM (
  SELECT *, sum(rises) OVER (
      PARTITION BY scenario_id, split, sensor, falls ORDER BY place ROWS UNBOUNDED PRECEDING
    ) AS in_a_row
  FROM (
    SELECT *, sum(1 - rises) OVER (
        PARTITION BY scenario_id, split, sensor ORDER BY place ROWS UNBOUNDED PRECEDING
      ) AS falls
    FROM (
      SELECT *, if(degrees > lag(degrees) OVER of_sensor, 1, 0) AS rises,
             row_number() OVER of_sensor AS place
      FROM records
      WINDOW of_sensor AS (PARTITION BY scenario_id, split, sensor ORDER BY offset)
    )
  )
)
WHERE rises = 1 AND in_a_row % 3 = 0
"""

SENSORS = ("attic", "cellar", "garden", "oven", "pond")
RISES = 3


def generate(random: Random) -> Workload:
    """Draw measurements that often rise, sometimes stay and sometimes fall, around zero."""
    return draw_keyed(random, SENSORS, _measurement)


def _measurement(chance: Chance, sensor: str, now: int) -> tuple[str, int]:
    # Time drives the temperature up; the noise makes ties and falls.
    return sensor, now // 8 - 5 + chance.integer(-2, 2)


class Alarm(KeyedProcessFunction):
    """Counts how often the temperature has risen."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))
        self._rises = runtime_context.get_state(ValueStateDescriptor("rises", Types.LONG()))
        self._measured = runtime_context.get_state(ValueStateDescriptor("measured", Types.LONG()))

    def process_element(
        self, value: tuple[str, str, int], ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[str, str, int, int]]:
        """Compare with the last temperature."""
        split, sensor, degrees = value
        measured = (self._measured.value() or 0) + 1
        self._measured.update(measured)
        last = self._last.value()
        self._last.update(degrees)
        if last is None or degrees <= last:
            self._rises.clear()
            return
        rises = (self._rises.value() or 0) + 1
        if rises == RISES:
            self._rises.clear()
            yield split, sensor, measured, degrees
        else:
            self._rises.update(rises)


def job(env: StreamExecutionEnvironment, io: JobIO) -> None:
    """Build sensors -> alarms -> table."""
    row = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.LONG()])
    into_table(named(keyed_records(env, io, "sensors").process(Alarm(), row), "alarms", io), io)


def expected(records: Records, declared: Declared) -> Rows:
    """Go through the temperatures of each sensor in order."""
    rows = []
    for split, values in records.items():
        measured: dict[object, list[int]] = {}
        rises: dict[object, int] = {}
        for _, value in values:
            assert isinstance(value, tuple)
            sensor, degrees = value[0], int(value[1] or 0)
            so_far = measured.setdefault(sensor, [])
            has_risen = bool(so_far) and degrees > so_far[-1]
            so_far.append(degrees)
            rises[sensor] = rises.get(sensor, 0) % RISES + 1 if has_risen else 0
            if rises[sensor] == RISES:
                rows.append((split, sensor, len(so_far), degrees))
    return rows
