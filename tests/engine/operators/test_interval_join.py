"""The interval join against a model that searches all records, and how long records are kept."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onceproof.engine.connected_functions import ProcessJoinFunction
from onceproof.engine.elements import MAX_WATERMARK, MIN_WATERMARK
from onceproof.engine.key_groups import key_group_of, operator_index
from onceproof.engine.operators.co_process import InputKeys
from onceproof.engine.operators.interval_join import IntervalJoinOperator, IntervalJoinSettings
from onceproof.engine.output_tag import OutputTag
from onceproof.engine.types import Types

MAX_PARALLELISM = 8
LATE = (OutputTag("late left"), OutputTag("late right"))


def first(value):
    return value[0]


KEYS = InputKeys((first, first), Types.STRING())


class Pair(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield left[1], right[1], ctx.get_left_timestamp(), ctx.get_right_timestamp(), ctx.get_timestamp()


class Nothing(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        return None


def join(lower, upper, function=Pair, late=(None, None)):
    types = (None, Types.TUPLE([Types.STRING(), Types.LONG()]))
    settings = IntervalJoinSettings(lower_ms=lower, upper_ms=upper, types=types, late_tags=late)
    return IntervalJoinOperator(function(), KEYS, settings)


def pairs(operator, side, *records):
    """Process (number, timestamp) records of the key "a", and return the results."""
    return operator.process_batch([(("a", number), timestamp) for number, timestamp in records], side)


def waiting(operator):
    """Return the timestamps kept for the key "a", by side."""
    operator._backend.current_key = "a"
    return [sorted(buffer.keys()) for buffer in operator._buffers]


def test_both_bounds_belong_to_the_interval(bench):
    operator = bench.open(join(-2, 3))
    assert pairs(operator, 1, (1, 7), (2, 8), (3, 10), (4, 13), (5, 14)) == []
    assert pairs(operator, 0, (9, 10)) == [
        ((9, 2, 10, 8, 10), 10),
        ((9, 3, 10, 10, 10), 10),
        ((9, 4, 10, 13, 13), 13),
    ]


def test_second_record_of_a_pair_finds_the_first(bench):
    operator = bench.open(join(-2, 3))
    assert pairs(operator, 0, (9, 10)) == []
    assert pairs(operator, 1, (1, 13), (2, 14), (3, 8)) == [((9, 1, 10, 13, 13), 13), ((9, 3, 10, 8, 10), 10)]


def test_keys_do_not_meet_and_equal_records_are_two(bench):
    operator = bench.open(join(0, 0))
    operator.process_batch([(("a", 1), 5), (("b", 2), 5), (("a", 1), 5)], 0)
    assert pairs(operator, 1, (7, 5)) == [((1, 7, 5, 5, 5), 5)] * 2


def test_a_function_may_give_nothing_and_a_record_needs_a_timestamp(bench):
    operator = bench.open(join(0, 0, Nothing))
    pairs(operator, 0, (1, 5))
    assert pairs(operator, 1, (1, 5)) == []
    with pytest.raises(TypeError, match="timestamps"):
        pairs(operator, 1, (1, None))


@pytest.mark.parametrize(
    ("lower", "upper", "left_until", "right_until"),
    [(-2, 3, 13, 12), (2, 5, 15, 10), (-5, -2, 10, 15), (0, 0, 10, 10)],
)
def test_a_record_is_kept_as_long_as_a_partner_may_come(bench, lower, upper, left_until, right_until):
    operator = bench.open(join(lower, upper))
    pairs(operator, 0, (1, 10))
    pairs(operator, 1, (1, 10))
    for watermark in range(9, 20):
        assert operator.process_watermark(watermark) == []
        left, right = waiting(operator)
        assert bool(left) == (watermark < left_until)
        assert bool(right) == (watermark < right_until)
    assert len(operator.timers.event) == 0


def test_late_record_goes_to_the_side_output_of_its_side(bench):
    bench.side.update({tag.tag_id: [] for tag in LATE})
    operator = bench.open(join(-5, 5, late=LATE))
    pairs(operator, 0, (1, 10))
    operator.process_watermark(12)
    assert pairs(operator, 1, (2, 11), (3, 12)) == [((1, 3, 10, 12, 12), 12)]
    assert pairs(operator, 0, (4, 11)) == []
    assert bench.side == {"late right": [(("a", 2), 11)], "late left": [(("a", 4), 11)]}
    assert operator.late_records_dropped == 0


def test_without_a_side_output_late_records_are_counted(bench):
    operator = bench.open(join(-5, 5))
    operator.process_watermark(12)
    assert pairs(operator, 1, (2, 11)) == []
    assert operator.late_records_dropped == 1
    assert waiting(operator) == [[], []]


class Model:
    """Keeps all records that were not late until the watermark has passed them."""

    def __init__(self, lower, upper):
        self.lower, self.upper = lower, upper
        self.kept = ([], [])
        self.watermark = MIN_WATERMARK

    def record(self, side, key, number, timestamp):
        if timestamp < self.watermark:
            return []
        self.kept[side].append((key, number, timestamp))
        found = []
        for other_key, other, other_at in sorted(self.kept[1 - side], key=lambda kept: kept[2]):
            apart = other_at - timestamp if side == 0 else timestamp - other_at
            if key == other_key and self.lower <= apart <= self.upper:
                numbers = (number, other) if side == 0 else (other, number)
                at = (timestamp, other_at) if side == 0 else (other_at, timestamp)
                found.append(((*numbers, *at, max(at)), max(at)))
        return found

    def advance(self, watermark):
        self.watermark = max(self.watermark, watermark)
        waits = (max(self.upper, 0), max(-self.lower, 0))
        for side, wait in enumerate(waits):
            self.kept[side][:] = [kept for kept in self.kept[side] if kept[2] + wait > self.watermark]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 1), st.sampled_from("ab"), st.integers(0, 30)),
        st.tuples(st.just("watermark"), st.integers(0, 30)),
        st.integers(1, 4),
    ),
    max_size=40,
)
"""A record of a side, a watermark, or a rescale to a parallelism."""


@given(STEPS, st.integers(-6, 6), st.integers(0, 8))
@example([("watermark", 0), (1, "a", 0), 1, (0, "a", 0)], 0, 0)
def test_interval_join_agrees_with_the_model_over_rescales(new_bench, steps, lower, length):
    bench = new_bench()
    make = lambda: join(lower, lower + length)  # noqa: E731
    operators = bench.open_all(make, 1)
    model = Model(lower, lower + length)
    for number, step in enumerate(steps):
        if isinstance(step, int):
            operators = bench.restore_all(operators, make, step)
            # The watermark that comes again fires the timers of records that were as old as it is.
            model.advance(model.watermark)
            for operator in operators:
                operator.process_watermark(model.watermark)
        elif step[0] == "watermark":
            model.advance(step[1])
            for operator in operators:
                assert operator.process_watermark(model.watermark) == []
        else:
            side, key, timestamp = step
            group = key_group_of(key, MAX_PARALLELISM, Types.STRING())
            owner = operators[operator_index(MAX_PARALLELISM, len(operators), group)]
            results = owner.process_batch([((key, number), timestamp)], side)
            assert results == model.record(side, key, number, timestamp)
    for operator in operators:
        operator.process_watermark(MAX_WATERMARK)
        assert len(operator.timers.event) == 0
        assert [list(buffer._table) for buffer in operator._buffers] == [[], []]
