"""Time to live: a millisecond has always passed between two rows, an hour never has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    RuntimeContext,
    StateTtlConfig,
    StreamExecutionEnvironment,
    Time,
    Types,
    ValueStateDescriptor,
)
from tests.conformance.programs import _paced

PARALLELISMS = (1,)
IN_ORDER = True
FUNCTIONS = "thread"
READING = Types.TUPLE([Types.STRING(), Types.LONG()])
READINGS = [("a", 1), ("a", 2), ("b", 3), ("a", 4), ("b", 5)]


def living(time: Time) -> StateTtlConfig:
    """Return a time to live that begins anew with each write."""
    return (
        StateTtlConfig.new_builder(time)
        .set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)
        .set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)
        .build()
    )


class Remember(KeyedProcessFunction):
    """Tells what it remembers of its key, then remembers the row, too."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._states = []
        for name, time in {"short": Time.milliseconds(1), "long": Time.hours(1)}.items():
            values = ValueStateDescriptor(f"{name} value", Types.LONG())
            lists = ListStateDescriptor(f"{name} list", Types.LONG())
            maps = MapStateDescriptor(f"{name} map", Types.LONG(), Types.LONG())
            for descriptor in (values, lists, maps):
                descriptor.enable_time_to_live(living(time))
            states = (
                runtime_context.get_state(values),
                runtime_context.get_list_state(lists),
                runtime_context.get_map_state(maps),
            )
            self._states.append((name, states))

    def process_element(self, value: Any, ctx: Any) -> Iterator[str]:
        key, number = value
        for name, (single, several, by_number) in self._states:
            held = [single.value(), list(several.get() or []), sorted(by_number.items())]
            yield f"{key} {number} {name}: {held}"
            single.update(number)
            several.add(number)
            by_number.put(number, -number)


def build(env: StreamExecutionEnvironment) -> None:
    """Print what is remembered."""
    readings = _paced.paced(env, READINGS, READING, 1)
    readings.key_by(lambda reading: reading[0], Types.STRING()).process(Remember(), Types.STRING()).print()
