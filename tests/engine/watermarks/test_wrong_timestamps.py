"""A timestamp assigner that returns anything but an int is refused, with its name, record and type."""

from __future__ import annotations

import pytest

from onceproof.engine.elements import MIN_WATERMARK
from onceproof.engine.watermarks.stamping import TimestampsAndWatermarks
from onceproof.engine.watermarks.strategy import TimestampAssigner, WatermarkStrategy


class Stamp(TimestampAssigner):
    def __init__(self, returned):
        self.returned = returned

    def extract_timestamp(self, value, record_timestamp):
        return self.returned


class Yielding(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        yield value


def stamped(assigner, *records):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(assigner)
    return TimestampsAndWatermarks(strategy, [0], lambda: 0, None).stamp(0, list(records))


@pytest.mark.parametrize(
    ("assigner", "words"),
    [
        (Stamp(7.9), r"assigner Stamp returned 7.9 \(float\) for the record 'click': .*round it"),
        (Stamp(None), r"assigner Stamp returned None \(NoneType\) for the record 'click': .*for each record"),
        (Stamp(True), r"assigner Stamp returned True \(bool\) for the record 'click': .*return an int"),
        (Yielding(), r"assigner Yielding returned a generator \(generator\) .*return it, do not yield it"),
    ],
    ids=["float", "none", "bool", "generator"],
)
def test_timestamp_that_is_no_int_is_refused_by_name(assigner, words):
    with pytest.raises(TypeError, match=words) as caught:
        stamped(assigner, ("click", None))
    assert "\n" not in str(caught.value)


def test_timestamps_of_ints_replace_those_of_the_records():
    assert stamped(Stamp(7), ("a", None), ("b", 9)) == [("a", 7), ("b", 7)]
    assert stamped(Stamp(MIN_WATERMARK), ("a", 5)) == [("a", MIN_WATERMARK)]
