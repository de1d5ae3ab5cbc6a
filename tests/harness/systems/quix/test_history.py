"""Histories of applications from hand-written events, and from a recorded run, judged by the checkers."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.verdict import judge
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import (
    ATTEMPT_STARTED,
    CHECKPOINT_COMPLETED,
    ERROR,
    LEAK,
    ROWS_FOUND,
    TRANSACTION_VISIBLE,
)
from onceproof.harness.model.scenario import Fault, from_json
from onceproof.harness.systems.process.job_specification import Spec, TrialTopics
from onceproof.harness.systems.quix.history import QuixHistory
from onceproof.harness.systems.quix.topics import PassedOn, Seen, with_ends

HERE = Path(__file__).parent
KILL = Fault("kill_all", "committing")
LENGTHS = {"a": 4, "b": 2}
KEYED = "repartition__t1--t1-in--key"


def spec_with(faults=(), lengths=LENGTHS, **changes):
    topics = TrialTopics("broker", "proxy", "t1", {split: length + 1 for split, length in lengths.items()})
    return Spec(
        family="word_count",
        job_name="word_count",
        checkpoints="states",
        output="output",
        events="events",
        kafka=topics,
        faults=faults,
        **changes,
    )


def built(given, seen=None, **changes):
    """Return the builder of the history of these events."""
    builder = QuixHistory(spec_with(**changes), LENGTHS, lambda: seen or Seen({}, [], {}, []))
    builder.add_process_log(
        [
            {"at": number * 1_000_000_000, "kind": kind, **payload}
            for number, (kind, payload) in enumerate(given)
        ]
    )
    return builder


def started(attempt=1, parallelism=1):
    payload = {"attempt": attempt, "parallelism": parallelism, "workers": [], "by_supervisor": False}
    return "workers_started", payload


def offsets(a=None, b=None, keyed=None):
    own = {str(number): offset for number, offset in enumerate((a, b)) if offset is not None}
    return {**({"t1-in": own} if own else {}), **({KEYED: {"0": keyed}} if keyed is not None else {})}


def committing(name, **of):
    return "committing", {"worker": "worker-0", "transaction": name, "offsets": offsets(**of)}


def committed(name):
    return "committed", {"transaction": name}


def resumed(**of):
    return "resumed", {"worker": "worker-0", "offsets": offsets(**of)}


def read(split, offset):
    return "record_read", {"split": split, "offset": offset}


def struck(number=0):
    waiting = {"left": [0], "striking": []}
    return "fault_struck", {
        "number": number,
        "task": "worker-0",
        "waiting": waiting,
        "points": {},
        "read": {},
    }


def finished():
    return "job_finished", {"points": {}}


def of_kind(builder, kind):
    return [(subject, payload) for _, each, subject, payload in builder.run.history.events if each == kind]


def cuts(builder):
    return [payload["cut"] for _, payload in of_kind(builder, CHECKPOINT_COMPLETED)]


def test_each_commit_is_a_checkpoint_with_its_offsets_and_its_rows():
    builder = built(
        [
            started(parallelism=2),
            committing("1.0.1", a=2),
            committing("1.1.1", b=3),
            committed("1.1.1"),
            committed("1.0.1"),
            finished(),
        ],
        Seen({"1.0.1": [("x", 1)]}, [], offsets(2, 3), []),
    )
    assert cuts(builder) == [{"a": 2, "b": 0}, {"a": 2, "b": 2}], "the end of split b is no record"
    [first, second] = of_kind(builder, CHECKPOINT_COMPLETED)
    assert (first[1]["transactions"], second[1]["transactions"]) == (("1.0.1",), ())
    [(name, visible)] = of_kind(builder, TRANSACTION_VISIBLE)
    assert (name, visible["subtask"], visible["epoch"], visible["rows"]) == ("1.0.1", 0, 1, [("x", 1)])
    assert builder.run.is_over


@pytest.mark.parametrize(("found", "took_place"), [(2, True), (-1001, False)])
def test_next_worker_of_the_partition_shows_whether_a_commit_took_place(found, took_place):
    given = [started(), committing("1.0.1", a=2), struck(), started(2), resumed(a=found), finished()]
    builder = built(given, Seen({}, [], offsets(4), []), faults=(KILL,))
    assert cuts(builder) == ([{"a": 2, "b": 0}] if took_place else [])
    assert [payload["restored"] for _, payload in of_kind(builder, ATTEMPT_STARTED)] == [
        None,
        1 if took_place else None,
    ]
    assert not of_kind(builder, ERROR)


def test_commit_that_no_worker_went_on_from_shows_with_the_group():
    given = [started(), committing("1.0.1", a=2), struck()]
    assert cuts(built(given, Seen({}, [], offsets(a=2), []), faults=(KILL,))) == [{"a": 2, "b": 0}]
    assert cuts(built(given, Seen({}, [], {}, []), faults=(KILL,))) == []


def test_rows_without_the_offsets_of_their_transaction_belong_to_no_checkpoint():
    given = [started(), committing("1.0.1", a=2), struck(), started(2), resumed(a=-1001)]
    builder = built(given, Seen({"1.0.1": [("x", 1)]}, [], {}, []), faults=(KILL,))
    assert not of_kind(builder, CHECKPOINT_COMPLETED)
    assert [name for name, _ in of_kind(builder, TRANSACTION_VISIBLE)] == ["1.0.1"]


def test_records_with_a_new_key_are_in_flight_until_they_are_processed():
    passed_on = [PassedOn(KEYED, 0, offset, name) for offset, name in enumerate(("1.0.1", "1.0.1", "1.0.3"))]
    given = [
        started(),
        *(committing("1.0.1", a=2), committed("1.0.1")),
        *(committing("1.0.2", keyed=1), committed("1.0.2")),
        *(committing("1.0.3", a=3, keyed=2), committed("1.0.3")),
    ]
    builder = built(given, Seen({}, passed_on, {}, []))
    assert [payload["in_flight"] for _, payload in of_kind(builder, CHECKPOINT_COMPLETED)] == [2, 1, 1]


@pytest.mark.parametrize("found", [1, 3])
def test_worker_that_gets_other_offsets_than_the_last_commits_is_an_error(found):
    given = [started(), committing("1.0.1", a=2), committed("1.0.1"), resumed(a=found)]
    [(where, payload)] = of_kind(built(given), ERROR)
    assert (where, payload["type"]) == ("consumer group", "OtherOffsets")


def test_records_that_are_read_again_are_counted_for_the_recovery():
    given = [
        started(),
        *(read("a", 0), read("a", 1), read("b", 0)),
        *(struck(), started(2), read("a", 0), read("a", 1), read("a", 2)),
        *(committing("2.0.1", a=3), committed("2.0.1")),
    ]
    builder = built(given, Seen({"2.0.1": [("x", 1)]}, [], {}, []), faults=(KILL,))
    [recovery] = builder.run.history.statistics.recoveries
    assert (recovery.position, recovery.replayed, recovery.restored) == (3, 2, None)
    assert recovery.seconds == 6, "from the kill to the answer of the commit"
    assert builder.run.history.statistics.records_replayed == 2


def test_rows_of_at_least_once_are_found_in_the_end_and_belong_to_no_checkpoint():
    given = [started(), committing("1.0.1", a=2), committed("1.0.1"), resumed(a=7), finished()]
    builder = built(given, Seen({"1.0.1": [("x", 1)]}, [], {}, []), barriers="at_least_once")
    assert [payload["rows"] for _, payload in of_kind(builder, ROWS_FOUND)] == [[("x", 1)]]
    assert not of_kind(builder, CHECKPOINT_COMPLETED)
    assert not of_kind(builder, ERROR)


def test_open_transaction_of_a_worker_that_has_ended_in_order_is_left_behind():
    builder = built([started(parallelism=2), finished()], Seen({}, [], {}, ["t1-1", "t1-2"]))
    builder.at_rest(Path("states"))
    assert of_kind(builder, LEAK) == [("open transaction", {"name": "t1-1"})]


def test_end_of_a_split_is_behind_all_its_records():
    ended = with_ends({"a": ((5, "x"), (3, "y")), "b": ()})
    assert ended == {"a": ((5, "x"), (3, "y"), (1_000_000_005, None)), "b": ((1_000_000_000, None),)}


def recorded(family_name, change=lambda events, seen: None):
    """Build the history of a recorded run, with changes to what was seen; return (history, verdict)."""
    run = json.loads((HERE / f"recorded_{family_name}.json").read_text(encoding="utf-8"))
    events, scenario = run["events"], from_json(json.dumps(run["scenario"]))
    change(events, run["seen"])
    lengths = {split: len(records) for split, records in scenario.records.items()}
    topics = next(event for event in events if event["kind"] == "resumed")["offsets"]
    group = next(topic for topic in topics if topic.endswith("-in")).removesuffix("-in")
    spec = spec_with(scenario.faults, lengths, parallelism=scenario.parallelism)
    spec = msgspec.structs.replace(spec, kafka=msgspec.structs.replace(spec.kafka, prefix=group))
    rows = {name: [tuple(row) for row in own] for name, own in run["seen"]["rows"].items()}
    found = msgspec.structs.replace(msgspec.convert(run["seen"], Seen), rows=rows)
    builder = QuixHistory(spec, lengths, lambda: found)
    builder.add_process_log(events)
    oracle = PythonOracle(load_family(family_name), scenario)
    return builder.run.history, judge(scenario, builder.run.history, oracle)


@pytest.mark.parametrize("family", ["word_count", "running_sum"])
def test_recorded_run_with_a_kill_passes(family):
    history, verdict = recorded(family)
    assert verdict.passed, verdict.violations
    assert history.statistics.coverage
    assert sum(kind == CHECKPOINT_COMPLETED for _, kind, _, _ in history.events) > 3


def test_recorded_run_with_keys_that_change_has_records_in_flight():
    history, _ = recorded("word_count")
    assert any(payload.get("in_flight") for _, _, _, payload in history.events)


@pytest.mark.parametrize("family", ["word_count", "running_sum"])
def test_recorded_run_without_a_row_breaks_exactly_once(family):
    def lose(events, seen):
        del next(iter(seen["rows"].values()))[0]

    assert "exactly_once" in recorded(family, lose)[1].failed_properties()


def test_recorded_run_with_a_row_in_an_earlier_transaction_breaks_only_its_cuts():
    def move(events, seen):
        first, *_, last = sorted(seen["rows"], key=[event.get("transaction") for event in events].index)
        seen["rows"][first].append(seen["rows"][last].pop())

    assert recorded("running_sum", move)[1].failed_properties() == ("consistent_cut",)


def test_recorded_run_whose_worker_goes_on_from_elsewhere_is_an_error():
    def go_back(events, seen):
        [found] = [event for event in events if event["kind"] == "resumed"][-1:]
        topic, own = next((topic, own) for topic, own in found["offsets"].items() if topic.endswith("-in"))
        found["offsets"][topic] = {number: offset - 1 for number, offset in own.items()}

    assert recorded("running_sum", go_back)[1].failed_properties()[0] == "no_error"
