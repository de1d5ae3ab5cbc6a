"""Bundles: what ends one, what it emits then, and what a snapshot has of it."""

from __future__ import annotations

from operator import itemgetter

from onceproof.engine.functions import AggregateFunction, ReduceFunction
from onceproof.engine.operators.bundle import AggregatingOperator, BundleOperator, ReducingOperator
from onceproof.engine.types import Types


class Letters(AggregateFunction):
    """Collects in place, so that a shared accumulator becomes visible."""

    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator):
        return "".join(accumulator)

    def merge(self, acc_a, acc_b):
        acc_a.extend(acc_b)
        return acc_a


class Join(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 + value2


def folding(size):
    return AggregatingOperator(Letters(), size, str.lower)


def merging(size=100):
    return BundleOperator(Letters(), size, Types.STRING(), Types.LIST(Types.STRING()))


def reducing(size=100):
    return BundleOperator(Join(), size, Types.STRING(), Types.STRING())


def values(records):
    return [value for value, _ in records]


# Where the records come from.


def test_a_bundle_that_is_not_full_gives_nothing(bench):
    operator = bench.open(folding(4))
    assert bench.process(operator, "a", "b", "A") == []


def test_a_full_bundle_gives_each_key_once_in_the_order_of_their_coming(bench):
    operator = bench.open(folding(4))
    assert bench.process(operator, "b", "a", "B", "A") == [("b", ["b", "B"]), ("a", ["a", "A"])]
    assert values(operator.finish()) == []


def test_a_buffer_fills_as_many_bundles_as_it_has_records_for(bench):
    operator = bench.open(folding(2))
    assert bench.process(operator, "a") == []
    assert bench.process(operator, "A", "a", "b", "a") == [("a", ["a", "A"]), ("a", ["a"]), ("b", ["b"])]
    assert values(operator.finish()) == [("a", ["a"])]


def test_a_watermark_a_barrier_and_the_end_each_end_a_bundle(bench):
    operator = bench.open(folding(100))
    for end in (
        lambda: operator.process_watermark(7),
        lambda: operator.prepare_snapshot(1),
        operator.finish,
    ):
        bench.process(operator, "a", "b")
        assert values(end()) == [("a", ["a"]), ("b", ["b"])]
        assert end() == []


def test_a_bundle_that_was_ended_early_does_not_count_towards_the_next(bench):
    operator = bench.open(folding(3))
    bench.process(operator, "a", "a")
    operator.prepare_snapshot(1)
    assert bench.process(operator, "a", "a") == []
    assert bench.process(operator, "a") == [("a", ["a", "a", "a"])]


def test_folded_values_have_no_timestamp(bench):
    operator = bench.open(folding(2))
    assert bench.process(operator, ("a", 5), ("b", 6), timestamps=True) == [
        (("a", ["a"]), None),
        (("b", ["b"]), None),
    ]


def test_folding_keeps_no_state(bench):
    operator = bench.open(folding(100))
    bench.process(operator, "a")
    operator.prepare_snapshot(1)
    assert operator.snapshot(1, 10) is None


def test_reducing_starts_from_the_first_value(bench):
    operator = bench.open(ReducingOperator(Join(), 5, itemgetter(0)))
    assert bench.process(operator, "ab", "ac", "bc", "ad", "be") == [("a", "abacad"), ("b", "bcbe")]


# With a latency.


def patient(latency_ms, size=4):
    return ReducingOperator(Join(), size, itemgetter(0), latency_ms)


def test_without_a_latency_no_wakeup_is_requested(bench):
    operator = bench.open(folding(4))
    bench.process(operator, "a")
    assert not operator.uses_time
    assert bench.behind.wishes == []


def at(bench, operator, now):
    """Let time pass until ``now``, and call the operator."""
    bench.now = now
    return operator.process_time(now)


def test_a_bundle_ends_a_latency_after_its_first_record(bench):
    operator = bench.open(patient(10))
    assert operator.uses_time
    bench.now = 100
    bench.process(operator, "ab")
    bench.now = 105
    bench.process(operator, "ac")
    assert bench.behind.wishes == [110]
    assert values(at(bench, operator, 110)) == [("a", "abac")]
    assert at(bench, operator, 120) == []
    assert bench.behind.wishes == [110]


def test_early_wakeup_requests_another_one(bench):
    operator = bench.open(patient(10))
    bench.process(operator, "ab")
    assert at(bench, operator, 9) == []
    assert bench.behind.wishes == [10, 10]
    assert values(at(bench, operator, 11)) == [("a", "ab")]


def test_the_next_bundle_waits_from_its_own_first_record_on(bench):
    operator = bench.open(patient(10))
    bench.process(operator, "ab", "ac", "ad")
    bench.now = 6
    # The fourth fills the bundle, the fifth begins another.
    assert bench.process(operator, "ae", "b") == [("a", "abacadae")]
    assert bench.behind.wishes == [10, 16]
    assert at(bench, operator, 10) == []
    assert values(at(bench, operator, 16)) == [("b", "b")]
    bench.process(operator, "c")
    assert values(operator.prepare_snapshot(1)) == [("c", "c")]
    assert at(bench, operator, 100) == []


# Where the keys live.


def test_parts_of_a_bundle_meet_in_one_result(bench):
    operator = bench.open(merging(3))
    assert bench.process(operator, ("a", ["1"]), ("b", ["2"]), ("a", ["3"])) == [("a", "13"), ("b", "2")]


def test_each_bundle_merges_into_the_state(bench):
    operator = bench.open(merging(1))
    assert bench.process(operator, ("a", ["1"]), ("a", ["2"]), ("b", ["3"])) == [
        ("a", "1"),
        ("a", "12"),
        ("b", "3"),
    ]


def test_snapshot_holds_exactly_the_records_before_its_barrier(new_bench):
    for parallelism in (1, 3):
        bench = new_bench()
        operator = bench.open(merging())
        bench.process(operator, ("a", ["1"]), ("b", ["2"]))
        assert values(operator.prepare_snapshot(7)) == [("a", "1"), ("b", "2")]
        restored = bench.restore_all([operator], merging, parallelism)
        bench.process(operator, ("a", ["late"]))
        operator.finish()
        emitted = []
        for each in restored:
            for key in ("a", "b"):
                if key in each._table:
                    bench.process(each, (key, ["+"]))
            emitted += values(each.finish())
        assert sorted(emitted) == [("a", "1+"), ("b", "2+")]


def test_reduced_values_are_emitted_unchanged(bench):
    operator = bench.open(reducing())
    bench.process(operator, ("a", "x"), ("a", "y"), ("b", "z"))
    assert values(operator.process_watermark(5)) == ["xy", "z"]
    bench.process(operator, ("a", "!"))
    assert values(operator.finish()) == ["xy!"]
