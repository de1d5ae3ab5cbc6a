"""The object store of the simulation: its troubles, and whether it answers as a real server does."""

from __future__ import annotations

from random import Random

import pytest

from onceproof.engine.connectors.part_files import Mark
from onceproof.engine.connectors.part_objects import object_name
from onceproof.engine.connectors.s3_calls import s3_calls
from onceproof.engine.object_calls import ObjectCalls, ObjectInTheWay, UploadMissing
from onceproof.harness.model.history import History
from onceproof.harness.services.object_store_server import BUCKET, ObjectStoreServer
from onceproof.harness.systems.simulation.agenda import Clock
from onceproof.harness.systems.simulation.external_system import TransactionalSystem
from onceproof.harness.systems.simulation.simulated_object_store import (
    RequestLost,
    SimulatedObjectCalls,
    StoreTrouble,
)

FOLDER = "conformance/"
NAMES = [object_name("part", Mark("0123456789abcdef", 0, 0, "1.1"), number, "") for number in range(3)]
KEYS = [FOLDER + name for name in NAMES]
ROWS = b'["a",1]\n["b",2]\n'


def store(trouble: str = "none", first: int = 1) -> tuple[SimulatedObjectCalls, TransactionalSystem]:
    system = TransactionalSystem(History(), Clock())
    parameters = {"trouble": trouble, "trouble_from": first}
    return SimulatedObjectCalls(system, StoreTrouble(parameters, system.request_lost)), system


class Client:
    """Makes requests, and says what came of each in a form that is the same for all stores."""

    def __init__(self, calls: ObjectCalls, folder: str) -> None:
        self._calls = calls
        self._folder = folder
        self._ids = ["never-begun"]
        self._tags: dict[int, list[str]] = {}

    def ask(self, kind: str, key: str, number: int) -> object:
        """Make a request about an upload by the number that the client has given it."""
        try:
            return self._ask(kind, key, number)
        except OSError:
            # Servers differ in their answers about uploads that are gone; a client looks what is there.
            return "fails"

    def _ask(self, kind: str, key: str, number: int) -> object:
        calls, number = self._calls, number % len(self._ids)
        upload_id = self._ids[number]
        match kind:
            case "begin":
                self._ids.append(calls.begin_upload(key, f"token-{len(self._ids)}"))
                return "begun"
            case "part":
                tags = self._tags.setdefault(number, [])
                if not tags:
                    tags.append(calls.put_part(key, upload_id, 1, ROWS))
                return "stored"
            case "complete":
                calls.complete_upload(key, upload_id, self._tags.get(number, ["no-tag"]))
                return "completed"
            case "abort":
                return calls.abort_upload(key, upload_id)
            case "has":
                return calls.has_upload(key, upload_id)
            case "find":
                return calls.find(key)
        return sorted((each.key, self._ids.index(each.upload_id)) for each in calls.uploads(self._folder))


@pytest.mark.parametrize("seed", range(2))
def test_simulated_store_answers_as_a_real_server_does(object_store: ObjectStoreServer, seed: int) -> None:
    random = Random(seed)
    folder = f"{FOLDER}{seed}/"
    real, simulated = Client(s3_calls(BUCKET), folder), Client(store()[0], folder)
    keys = [folder + name for name in NAMES]
    kinds = ("begin", "begin", "part", "part", "complete", "abort", "has", "find", "list")
    asked = []
    owners: list[str] = [keys[0]]
    for _ in range(60):
        kind = kinds[int(random.random() * len(kinds))]
        number = int(random.random() * len(owners))
        if kind == "begin":
            owners.append(keys[int(random.random() * len(keys))])
            key = owners[-1]
        else:
            key = owners[number] if kind != "find" else keys[int(random.random() * len(keys))]
        asked.append((kind, key[-3:], number))
        answers = real.ask(kind, key, number), simulated.ask(kind, key, number)
        assert answers[0] == answers[1], "; ".join(map(str, asked[-14:]))
    assert {kind for kind, *_ in asked} == set(kinds)


def test_late_request_is_performed_after_its_client_gave_up() -> None:
    calls, system = store("late")
    with pytest.raises(RequestLost):
        calls.begin_upload(KEYS[0], "late")
    assert calls.uploads(FOLDER) == []
    calls.begin_upload(KEYS[1], "other")
    assert [each.key for each in calls.uploads(FOLDER)] == [KEYS[0], KEYS[1]]
    assert len(system.begun_late) == 1


def test_torn_part_is_stored_half_and_the_upload_stays_open() -> None:
    calls, system = store("torn", first=2)
    upload_id = calls.begin_upload(KEYS[0], "token")
    with pytest.raises(RequestLost):
        calls.put_part(KEYS[0], upload_id, 1, ROWS)
    assert system.transactions[upload_id].rows == [("a", 1)]
    assert calls.has_upload(KEYS[0], upload_id)
    assert calls.find(KEYS[0]) is None


def test_repeated_completion_changes_nothing_and_stale_lists_show_what_is_gone() -> None:
    calls, system = store("repeated", first=3)
    upload_id = calls.begin_upload(KEYS[0], "token")
    tag = calls.put_part(KEYS[0], upload_id, 1, ROWS)
    calls.complete_upload(KEYS[0], upload_id, [tag])
    calls.begin_upload(KEYS[1], "other")
    assert len([event for event in system._history.events if event[1] == "transaction_visible"]) == 1
    stale = SimulatedObjectCalls(system, StoreTrouble({"trouble": "stale"}, system.request_lost))
    assert KEYS[0] in [each.key for each in stale.uploads(FOLDER)]
    stale.abort_upload(KEYS[0], upload_id)
    assert stale.find(KEYS[0]) is not None


def test_completion_is_refused_where_an_object_or_no_upload_is() -> None:
    calls, _ = store()
    ids = [calls.begin_upload(KEYS[0], token) for token in ("one", "two")]
    tags = [calls.put_part(KEYS[0], upload_id, 1, ROWS) for upload_id in ids]
    calls.complete_upload(KEYS[0], ids[0], tags[:1])
    with pytest.raises(ObjectInTheWay):
        calls.complete_upload(KEYS[0], ids[1], tags[1:])
    calls.abort_upload(KEYS[0], ids[1])
    with pytest.raises(UploadMissing):
        calls.put_part(KEYS[0], ids[1], 2, ROWS)


def test_unknown_trouble_is_named() -> None:
    with pytest.raises(ValueError, match="trouble 'fire': an object store knows none, late"):
        store("fire")
