"""Time to live: when state expires, what may still be seen of it, and who removes it."""

import pytest

from onceproof.engine.durations import Duration, Time
from onceproof.engine.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from onceproof.engine.state.file_envelope import StateError
from onceproof.engine.state.hashmap import HashMapStateBackend
from onceproof.engine.state.ttl import StateTtlConfig
from onceproof.engine.types import Types

TTL = 100
ON_READ = StateTtlConfig.UpdateType.OnReadAndWrite
WINDOW = Types.TUPLE([Types.LONG(), Types.LONG()])


class Total:
    def create_accumulator(self):
        return [0]

    def add(self, value, accumulator):
        return [accumulator[0] + value]

    def get_result(self, accumulator):
        return accumulator[0]

    def merge(self, acc_a, acc_b):
        return [acc_a[0] + acc_b[0]]


def builder():
    return StateTtlConfig.new_builder(Time.milliseconds(TTL)).disable_cleanup_in_background()


MAKE = {
    "value": lambda: ValueStateDescriptor("s", Types.LONG()),
    "list": lambda: ListStateDescriptor("s", Types.LONG()),
    "map": lambda: MapStateDescriptor("s", Types.STRING(), Types.LONG()),
    "reducing": lambda: ReducingStateDescriptor("s", lambda one, other: one + other, Types.LONG()),
    "aggregating": lambda: AggregatingStateDescriptor("s", Total(), Types.LIST(Types.LONG())),
}


def descriptor(kind, config=None):
    made = MAKE[kind]()
    made.enable_time_to_live((config or builder()).build())
    return made


by_kind = pytest.mark.parametrize("kind", list(MAKE))


@pytest.fixture
def opened(backends, at):
    """A state of a kind and its backend, with a current key."""

    def open_state(kind, config=None):
        backend = backends.make()
        at(backend, "a")
        return backend, backend.state(descriptor(kind, config))

    return open_state


def write(state, number=1):
    if hasattr(state, "put"):
        state.put("x", number)
    elif hasattr(state, "value"):
        state.update(number)
    else:
        state.add(number)


def read(state):
    """What a state of any kind shows of the one thing in it, or None."""
    if hasattr(state, "put"):
        return state.get("x")
    found = state.value() if hasattr(state, "value") else state.get()
    return (found[0] if found else None) if isinstance(found, list) else found


@by_kind
def test_expired_state_is_cleared_by_the_next_access(backends, opened, kind):
    backend, state = opened(kind)
    write(state)
    backends.now = TTL - 1
    assert read(state) == 1
    backends.now = TTL
    assert backend.keys(MAKE[kind]()) == ["a"]
    assert read(state) is None
    assert backend.keys(MAKE[kind]()) == []


@by_kind
def test_expired_state_is_returned_once_if_configured(backends, opened, kind):
    _, state = opened(kind, builder().return_expired_if_not_cleaned_up())
    write(state)
    backends.now = TTL
    assert read(state) == 1
    assert read(state) is None


@by_kind
def test_reads_refresh_the_time_to_live_only_if_configured(backends, opened, kind):
    _, refreshed = opened(kind, builder().update_ttl_on_read_and_write())
    _, left_alone = opened(kind)
    write(refreshed)
    write(left_alone)
    backends.now = TTL - 1
    assert read(refreshed) == read(left_alone) == 1
    backends.now = TTL
    assert read(refreshed) == 1
    assert read(left_alone) is None


@by_kind
def test_writing_prolongs_life(backends, opened, kind):
    _, state = opened(kind)
    write(state)
    backends.now = TTL - 1
    write(state)
    backends.now = TTL
    assert read(state) is not None


@by_kind
def test_clock_that_goes_back_revives_state_without_access(backends, opened, kind):
    _, state = opened(kind)
    write(state)
    backends.now = TTL
    backends.now = TTL - 1
    assert read(state) == 1


@by_kind
def test_time_that_the_job_was_down_counts(backends, at, opened, kind):
    backend, state = opened(kind)
    write(state)
    backends.now = 60
    target = backends.restored(backend)
    at(target, "a")
    copy = target.state(descriptor(kind))
    backends.now = TTL - 1
    assert read(copy) == 1
    backends.now = TTL
    assert read(copy) is None


@by_kind
def test_time_to_live_counts_in_a_namespace_of_its_own(backends, at, kind):
    backend = backends.make()
    at(backend, "a")
    state = backend.state(descriptor(kind), WINDOW)
    state.set_current_namespace((0, 1))
    write(state)
    backends.now = 50
    state.set_current_namespace((1, 2))
    write(state)
    backends.now = TTL
    assert read(state) == 1
    state.set_current_namespace((0, 1))
    assert read(state) is None


@pytest.mark.parametrize(
    ("kind", "merged"), [("list", [1, 2]), ("reducing", 3), ("aggregating", 3)], ids=lambda value: str(value)
)
def test_merged_namespaces_keep_unexpired_state(backends, at, kind, merged):
    backend = backends.make()
    at(backend, "a")
    state = backend.state(descriptor(kind), WINDOW)
    state.set_current_namespace((0, 1))
    state.add(7)
    backends.now = TTL
    for number, window in ((1, (1, 2)), (2, (2, 3))):
        state.set_current_namespace(window)
        state.add(number)
    state.merge_namespaces((0, 1), [(1, 2), (2, 3)])
    state.set_current_namespace((0, 1))
    assert state.get() == merged


@pytest.mark.parametrize("kind", ["reducing", "aggregating"])
def test_adding_to_expired_state_starts_over_unless_it_is_visible(backends, opened, kind):
    _, state = opened(kind)
    _, seen = opened(kind, builder().return_expired_if_not_cleaned_up())
    state.add(1)
    seen.add(1)
    backends.now = TTL
    state.add(10)
    seen.add(10)
    assert (state.get(), seen.get()) == (10, 11)


@by_kind
def test_none_clears_or_is_refused_as_without_a_time_to_live(backends, opened, kind):
    backend, state = opened(kind)
    write(state)
    if kind == "list":
        with pytest.raises(StateError, match="None cannot be an element"):
            state.add(None)
    elif kind == "map":
        state.put(None, 1)
        state.put_all({None: 2})
        assert (state.contains(None), state.get(None)) == (True, 2)
    else:
        (state.update if kind == "value" else state.add)(None)
        assert backend.keys(MAKE[kind]()) == []


def test_elements_of_a_list_expire_one_by_one(backends, opened):
    _, state = opened("list")
    state.add(1)
    backends.now = 60
    state.add_all([2, 3])
    backends.now = TTL
    assert state.get() == [2, 3]
    state.update([4])
    backends.now = 60 + TTL
    assert state.get() == [4]


def test_expired_elements_may_be_seen_until_all_are_expired(backends, opened):
    _, state = opened("list", builder().return_expired_if_not_cleaned_up())
    state.add(1)
    backends.now = 60
    state.add(2)
    backends.now = TTL
    assert state.get() == [1, 2]
    backends.now = 60 + TTL
    assert state.get() == [1, 2]
    assert state.get() == []


def test_entries_of_a_map_expire_one_by_one(backends, opened):
    _, state = opened("map")
    state.put("x", None)
    backends.now = 60
    state.put_all({"y": 1, "z": 2})
    state.remove("z")
    assert state.contains("x")
    backends.now = TTL
    assert list(state.items()) == [("y", 1)]
    assert not state.contains("x")
    backends.now = 60 + TTL
    assert not state.is_empty()
    assert state.keys() == []
    assert state.is_empty()


def test_iterating_over_a_map_refreshes_entries_if_reads_do(backends, opened):
    _, state = opened("map", builder().set_update_type(ON_READ))
    state.put_all({"x": 1, "y": 2})
    backends.now = TTL - 1
    assert sorted(state.values()) == [1, 2]
    backends.now = TTL
    assert sorted(state.items()) == [("x", 1), ("y", 2)]


def keys_left(backend, kind):
    return sorted(backend.keys(MAKE[kind]()))


@by_kind
def test_access_to_one_key_cleans_up_after_others(heap, at, kind):
    backend = heap.make()
    state = backend.state(descriptor(kind, builder().cleanup_incrementally(3, False)))
    for key in "abcdef":
        at(backend, key)
        write(state)
    heap.now = TTL
    at(backend, "z")
    write(state)
    assert len(keys_left(backend, kind)) == 4
    for _ in range(3):
        write(state)
    assert keys_left(backend, kind) == ["z"]


def test_cleanup_is_on_by_default_and_keeps_unexpired_state(heap, at):
    backend = heap.make()
    made = ListStateDescriptor("s", Types.LONG())
    made.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(TTL)).build())
    state = backend.state(made)
    for key in "abc":
        at(backend, key)
        state.add(1)
    heap.now = 60
    state.add(2)
    heap.now = TTL
    for _ in range(2):
        state.add(3)
    assert keys_left(backend, "list") == ["c"]
    assert state.get() == [2, 3, 3]


@by_kind
def test_full_snapshot_omits_expired_state_but_does_not_delete_it(heap, at, kind):
    backend = heap.make()
    made = descriptor(kind, builder().cleanup_full_snapshot())
    state = backend.state(made)
    for key, now in (("a", 0), ("b", TTL)):
        heap.now = now
        at(backend, key)
        write(state)
    snapshot = backend.snapshot()
    assert keys_left(backend, kind) == ["a", "b"]
    heap.now = 0
    target = heap.restored_from(snapshot)
    target.state(made)
    assert keys_left(target, kind) == ["b"]


@by_kind
def test_database_cleans_up_after_the_configured_number_of_accesses(database, at, kind):
    backend = database.make()
    state = backend.state(descriptor(kind, builder().cleanup_in_rocksdb_compact_filter(4)))
    for key in "abcdef":
        at(backend, key)
        write(state)
    database.now = TTL
    at(backend, "z")
    for _ in range(6):
        assert len(keys_left(backend, kind)) > 1
        write(state)
    assert keys_left(backend, kind) == ["z"]


def test_database_cleans_up_by_itself_and_keeps_expired_state_in_its_snapshots(database, at):
    backend = database.make()
    made = ListStateDescriptor("s", Types.LONG())
    made.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(TTL)).build())
    state = backend.state(made)
    at(backend, "a")
    state.add(1)
    database.now = TTL
    at(backend, "b")
    copy = database.restored(backend)
    copy.state(made)
    assert keys_left(copy, "list") == ["a"]
    for _ in range(1000):
        state.add(2)
    assert keys_left(backend, "list") == ["b"]
    assert len(state.get()) == 1000


def test_same_name_with_another_time_to_live_is_refused(backends):
    backend = backends.make()
    backend.state(descriptor("value"))
    backend.state(descriptor("value"))
    with pytest.raises(StateError, match="a name has one type"):
        backend.state(descriptor("value", builder().set_ttl(Duration.of_seconds(1))))


def test_time_to_live_without_a_clock_is_refused():
    with pytest.raises(StateError, match="'s' has a time to live, but its backend has no clock"):
        HashMapStateBackend(128, (0, 127)).state(descriptor("value"))


def test_configuration_has_the_defaults_of_flink():
    config = StateTtlConfig.new_builder(Time.hours(1)).build()
    assert config.is_enabled()
    assert config.get_ttl() == Time.hours(1)
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    assert config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
    cleanup = config.get_cleanup_strategies()
    assert cleanup.is_cleanup_in_background()
    assert not cleanup.in_full_snapshot()
    assert cleanup.in_rocksdb_compact_filter()
    incremental = cleanup.get_incremental_cleanup_strategy()
    assert (incremental.get_cleanup_size(), incremental.run_cleanup_for_every_record()) == (5, False)
    compaction = cleanup.get_rocksdb_compact_filter_cleanup_strategy()
    assert compaction.get_query_time_after_num_entries() == 1000
    assert compaction.get_periodic_compaction_time() == Duration.of_days(30)


def test_configuration_has_the_settings_of_the_builder():
    config = (
        StateTtlConfig.new_builder(Time.hours(1))
        .set_ttl(Duration.of_millis(5))
        .use_processing_time()
        .update_ttl_on_create_and_write()
        .never_return_expired()
        .cleanup_full_snapshot()
        .cleanup_incrementally(7, True)
        .cleanup_in_rocksdb_compact_filter(9, Duration.of_hours(2))
        .disable_cleanup_in_background()
        .build()
    )
    assert config.ttl_ms == 5
    cleanup = config.get_cleanup_strategies()
    assert cleanup.in_full_snapshot()
    assert cleanup.get_incremental_cleanup_strategy().get_cleanup_size() == 7
    assert cleanup.get_rocksdb_compact_filter_cleanup_strategy().get_query_time_after_num_entries() == 9
    assert not cleanup.is_cleanup_in_background()


def test_cleanup_in_background_can_be_switched_off():
    cleanup = builder().build().get_cleanup_strategies()
    assert cleanup.get_incremental_cleanup_strategy() is None
    assert cleanup.get_rocksdb_compact_filter_cleanup_strategy() is None
    assert not cleanup.in_rocksdb_compact_filter()


def test_disabled_time_to_live_is_ignored(backends, opened):
    _, state = opened("value", builder().set_update_type(StateTtlConfig.UpdateType.Disabled))
    state.update(1)
    backends.now = TTL
    assert state.value() == 1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: builder().set_ttl(Time.milliseconds(0)).build(), "must be positive"),
        (lambda: builder().set_ttl(5).build(), "give a Duration or a Time"),
        (lambda: builder().cleanup_incrementally(0, False), "cleanup of 0 entries"),
        (lambda: builder().cleanup_in_rocksdb_compact_filter(0), "every 0 entries"),
    ],
)
def test_configuration_that_makes_no_sense_is_refused(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


def test_default_cleanup_leaves_expired_state_to_the_read_that_returns_it_once(heap, at):
    backend = heap.make()
    made = ValueStateDescriptor("s", Types.LONG())
    made.enable_time_to_live(
        StateTtlConfig.new_builder(Time.milliseconds(TTL)).return_expired_if_not_cleaned_up().build()
    )
    state = backend.value_state(made)
    for key in "abc":
        at(backend, key)
        state.update(1)
    heap.now = TTL
    at(backend, "a")
    assert (state.value(), state.value()) == (1, None)
    at(backend, "b")
    assert (state.value(), state.value()) == (1, None)
    for _ in range(2000):
        state.update(2)
    assert sorted(backend.table(made)) == ["b"]
