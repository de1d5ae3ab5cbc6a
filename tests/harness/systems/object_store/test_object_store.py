"""What the object store promises its clients, and what the network does to their requests."""

from __future__ import annotations

from random import Random

import pytest

from onceproof.engine.runtime.storage import MissingFile, StorageError
from tests.harness.systems.object_store.object_store import (
    PART_BYTES,
    NetworkFaults,
    ObjectStore,
    RequestLost,
    StoreClient,
)


class Died(BaseException):
    """The death of a client."""


NO_FAULTS = NetworkFaults()


def client(store: ObjectStore, faults: NetworkFaults = NO_FAULTS, dies_at: str = "") -> StoreClient:
    def turn(request: str) -> None:
        if request == dies_at:
            raise Died

    return StoreClient(store, turn, Random(1), faults)


def test_only_the_first_of_two_exclusive_puts_is_performed() -> None:
    store = ObjectStore()
    assert client(store).create_exclusive("a", b"one")
    assert not client(store).create_exclusive("a", b"two")
    assert client(store).read("a") == b"one"


def test_object_whose_client_dies_between_two_parts_is_never_seen() -> None:
    store = ObjectStore()
    with pytest.raises(Died):
        client(store, dies_at="put part 2 of a").write("a", bytes(3 * PART_BYTES))
    assert (client(store).list(""), store.objects) == ([], {})
    assert [len(parts) for parts in store.parts.values()] == [2]
    with pytest.raises(MissingFile):
        client(store).read("a")


def test_object_in_parts_is_whole_when_it_is_seen() -> None:
    store = ObjectStore()
    data = bytes(range(256)) * 5
    client(store).write("a", data)
    assert (client(store).read("a"), store.parts) == (data, {})


def test_late_put_has_no_answer_and_is_performed_later() -> None:
    store = ObjectStore()
    with pytest.raises(RequestLost, match="put a: no answer"):
        client(store, NetworkFaults(late=1)).create_exclusive("a", b"one")
    assert store.objects == {}
    store.land_one(Random(1))
    assert store.objects == {"a": b"one"}
    store.land_one(Random(1))


def test_repeated_request_is_performed_again_later() -> None:
    store = ObjectStore()
    doubled = client(store, NetworkFaults(repeated=1))
    doubled.write("a", b"one")
    client(store).delete("a")
    store.land_one(Random(1))
    assert client(store).exists("a")
    doubled.delete("a")
    client(store).write("a", b"two")
    store.land_one(Random(1))
    assert not client(store).exists("a")


@pytest.mark.parametrize("path", ["../a", "/a", "a\0"])
def test_path_that_leads_out_is_refused(path: str) -> None:
    for use in (client(ObjectStore()).delete, client(ObjectStore()).create_exclusive):
        with pytest.raises(StorageError, match="does not lie within"):
            use(path)
