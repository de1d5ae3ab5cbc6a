"""State of type PICKLED_BYTE_ARRAY: plain values need no permission, opaque ones are refused when written."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from onceproof.engine import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    RuntimeContext,
    StateTtlConfig,
    StreamExecutionEnvironment,
    Time,
    Types,
    ValueStateDescriptor,
)
from onceproof.engine.configuration import Configuration
from onceproof.engine.state.file_envelope import PickleRefused, StateError
from onceproof.engine.state.snapshot import (
    OperatorSnapshot,
    TaskSnapshot,
    decode_task_snapshot,
    encode_task_snapshot,
)
from tests.engine.types.test_objects import IDS, VALUES, Opaque, Visit, same

ANY = Types.PICKLED_BYTE_ARRAY()
VALUE = ValueStateDescriptor("value", ANY)
LIST = ListStateDescriptor("list", ANY)
MAP = MapStateDescriptor("map", ANY, ANY)
REDUCED = ReducingStateDescriptor("reduced", lambda one, other: (one, other), ANY)
WITHIN = ValueStateDescriptor("within", Types.TUPLE([Types.STRING(), ANY]))


def timed(descriptor):
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    return descriptor


def write(backend, value):
    backend.current_key = "a"
    backend.value_state(VALUE).update(value)
    backend.list_state(LIST).update([1, value] if value is not None else [1])
    backend.map_state(MAP).put_all({"k": value, (1, None): (value,)})
    backend.reducing_state(REDUCED).add([value])
    backend.value_state(WITHIN).update(("a", value))
    backend.value_state(timed(ValueStateDescriptor("timed", ANY))).update({"v": value})


def read(backend):
    backend.current_key = "a"
    return [
        backend.value_state(VALUE).value(),
        backend.list_state(LIST).get(),
        sorted(backend.map_state(MAP).items(), key=repr),
        backend.reducing_state(REDUCED).get(),
        backend.value_state(WITHIN).value(),
        backend.value_state(timed(ValueStateDescriptor("timed", ANY))).value(),
    ]


@pytest.mark.parametrize("value", VALUES, ids=IDS)
def test_a_plain_value_comes_back_from_any_state_of_each_backend(backends, value):
    source = backends.make()
    write(source, value)
    before = read(source)
    again = backends.restored(backends.restored(source))
    assert same(read(again), before)


def test_plain_values_come_back_from_a_savepoint(backends):
    source = backends.make()
    value = {"visit": Visit("ann", ["/"]), "days": {(1, None), 2}}
    write(source, value)
    encoded = encode_task_snapshot(TaskSnapshot({"op": OperatorSnapshot(source.snapshot())}), canonical=True)
    target = backends.make(kind=backends.restoring)
    target.restore(decode_task_snapshot(encoded.data, "file")["op"].keyed)
    assert same(read(target), read(source))


@pytest.mark.parametrize("state", ["value", "list", "map", "key of map", "reduced", "within", "timed"])
def test_the_first_opaque_value_is_refused_with_state_operator_and_type(backends, state):
    backend = backends.make()
    backend.operator_name, backend.current_key = "pairs", "a"
    opaque: Any = Opaque()
    writes = {
        "value": lambda: backend.value_state(VALUE).update({"n": opaque}),
        "list": lambda: backend.list_state(LIST).add(opaque),
        "map": lambda: backend.map_state(MAP).put(1, [opaque]),
        "key of map": lambda: backend.map_state(MAP).put(len, 1),
        "reduced": lambda: backend.reducing_state(REDUCED).add(opaque),
        "within": lambda: backend.value_state(WITHIN).update(("a", opaque)),
        "timed": lambda: backend.value_state(timed(ValueStateDescriptor("timed", ANY))).update(opaque),
    }
    name, kind = ("map", "builtin_function_or_method") if state == "key of map" else (state, "Opaque")
    with pytest.raises(
        StateError,
        match=rf"operator 'pairs', state '{name}': a value of type {kind} .* pipeline\.allow-pickled",
    ):
        writes[state]()
    assert backend.keys(VALUE) == []


def test_an_opaque_value_is_stored_and_read_where_the_job_allows_it(backends):
    source = backends.make()
    source.allow_pickle = True
    write(source, Opaque())
    target = backends.restored(source, allow_pickle=True)
    assert read(target) == read(source)
    refused = backends.restored(source)
    with pytest.raises(PickleRefused, match=r"state 'value' holds pickled objects.*allow-pickled-state"):
        read(refused)


class CountUp(KeyedProcessFunction):
    """Counts in a plain dict, or in an opaque object; fails once behind a checkpoint."""

    failed: ClassVar[list[int]] = []

    def __init__(self, opaque: bool = False) -> None:
        self.opaque = opaque

    def open(self, runtime_context: RuntimeContext) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("counts", ANY))
        self.checkpoints = 0

    def process_element(self, value, ctx):
        counts = self.state.value() or {"n": 0, "seen": (None, set())}
        counts = {"n": counts["n"] + 1, "seen": (None, {*counts["seen"][1], value})}
        self.state.update(Opaque() if self.opaque else counts)
        if value == 9 and not self.failed:
            self.failed.append(value)
            raise OSError("the network is gone")
        yield counts["n"], len(counts["seen"][1]), type(counts["seen"]).__name__


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_job_goes_on_from_a_checkpoint_of_plain_values(backend, tmp_path):
    CountUp.failed.clear()
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_mapping(
            {
                "execution.checkpointing.interval": "10 ms",
                "execution.checkpointing.dir": str(tmp_path),
                "state.backend.type": backend,
                "restart-strategy.type": "fixed-delay",
                "restart-strategy.fixed-delay.delay": "0 ms",
            }
        )
    )
    counted = env.from_collection(list(range(12))).key_by(lambda value: "a").process(CountUp())
    with counted.execute_and_collect() as rows:
        assert list(rows) == [(n, n, "tuple") for n in range(1, 13)]
    assert CountUp.failed == [9]


def test_a_job_ends_at_the_first_opaque_value_and_names_its_operator():
    env = StreamExecutionEnvironment.get_execution_environment()
    counted = env.from_collection([1]).key_by(lambda value: "a").process(CountUp(opaque=True)).name("counter")
    with pytest.raises(
        match=r"operator 'counter', state 'counts': a value of type Opaque .*allow-pickled",
    ):
        list(counted.execute_and_collect())
