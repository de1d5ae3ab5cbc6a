"""Keys are the same for every backend, through checkpoints and at each parallelism."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from onceproof.engine.java_hashes import InvalidKey
from onceproof.engine.key_identity import value_of
from onceproof.engine.state.descriptors import ValueStateDescriptor
from onceproof.engine.types import Types
from tests.engine.drawn_keys import KEYS_AND_TYPES, shown

COUNT = ValueStateDescriptor("count", Types.LONG())


@settings(max_examples=40, deadline=None)
@given(KEYS_AND_TYPES, st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=4))
def test_keys_keep_their_counts_through_restores_at_any_parallelism(
    backends_of_each, keys_and_type, parallelisms
):
    keys, key_type = keys_and_type
    bench = backends_of_each()
    backends = [bench.make(key_type=key_type)]
    try:
        identities = [backends[0].identify(key) for key in keys]
    except InvalidKey:
        identities = []
    for parallelism in (*parallelisms, 1):
        for identity in identities:
            owner = bench.owner(backends, identity)
            owner.current_key = identity
            state = owner.value_state(COUNT)
            state.update((state.value() or 0) + 1)
        for backend in backends:
            backend.value_state(COUNT)
        backends = bench.rescaled(backends, parallelism)
    (backend,) = backends
    table = backend.table(COUNT)
    rounds = len(parallelisms) + 1
    held = {shown(value_of(identity)): table[identity] for identity in table}
    backend.close()
    expected = Counter(shown(value_of(identity)) for identity in identities)
    assert held == {key: times * rounds for key, times in expected.items()}


@pytest.mark.parametrize(
    ("stored", "key", "key_type"), [(1, True, None), (1, 1.0, None), (0.0, -0.0, Types.DOUBLE())], ids=repr
)
def test_database_of_an_earlier_version_goes_on_with_equal_keys_as_one(database, stored, key, key_type):
    backend = database.make(key_type=key_type)
    backend.current_key = stored
    backend.value_state(COUNT).update(7)
    (state,) = database.stored(backend.snapshot())
    backend.close()
    # Up to version 0.2 a database wrote True and 1.0 as 1, and said nothing of how it writes keys.
    (part,) = state.native
    earlier = replace(part, state=replace(part.state, merges_equal_keys=True))
    target = database.make(key_type=key_type)
    target.restore(state.keyed, [earlier])
    target.current_key = target.identify(key)
    assert target.value_state(COUNT).value() == 7
    assert target.snapshot().merges_equal_keys
    target.close()
