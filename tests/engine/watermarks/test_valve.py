"""Several channels, several inputs: what the recorded facts about Flink leave out."""

from random import Random

import pytest

from onceproof.engine.elements import ACTIVE, IDLE, MAX_WATERMARK, Watermark
from onceproof.engine.watermarks.combined import CombinedInputs
from onceproof.engine.watermarks.valve import WatermarkValve


def test_ended_channel_holds_nothing_back():
    valve = WatermarkValve(2)
    assert valve.ended(0, MAX_WATERMARK) == ()
    assert valve.watermark(1, 5) == (Watermark(5),)
    assert valve.ended(1, MAX_WATERMARK) == (Watermark(MAX_WATERMARK),)


def test_channel_that_ends_while_idle_is_over_too():
    valve = WatermarkValve(2)
    valve.status(0, True)
    assert valve.watermark(1, 5) == (Watermark(5),)
    assert valve.ended(0, MAX_WATERMARK) == ()
    assert valve.watermark(1, 6) == (Watermark(6),)
    assert valve.ended(1, MAX_WATERMARK) == (Watermark(MAX_WATERMARK),)


def test_last_channel_that_ends_while_idle_wakes_the_input():
    valve = WatermarkValve(1)
    assert valve.status(0, True) == (IDLE,)
    assert valve.ended(0, MAX_WATERMARK) == (ACTIVE, Watermark(MAX_WATERMARK))


def with_none_aligned():
    """Return a valve at 7 whose only active channel is behind: 10 and 7 are idle, 5 has come back."""
    valve = WatermarkValve(3)
    for channel, timestamp in enumerate((10, 5, 7)):
        valve.watermark(channel, timestamp)
    assert valve.status(0, True) == ()
    assert valve.status(1, True) == (Watermark(7),)
    assert valve.status(1, False) == ()
    assert valve.status(2, True) == ()
    return valve


def test_a_channel_that_comes_back_ahead_of_all_advances_the_time():
    assert with_none_aligned().status(0, False) == (Watermark(10),)


def test_time_comes_as_far_whichever_channel_turns_idle_last():
    assert with_none_aligned().status(1, True) == (Watermark(10), IDLE)


def test_least_of_two_inputs_counts():
    inputs = CombinedInputs(2)
    assert inputs.take(0, [Watermark(10)]) == ()
    assert inputs.take(1, [Watermark(4)]) == [Watermark(4)]
    assert inputs.take(1, [Watermark(12)]) == [Watermark(10)]


def test_idle_input_does_not_count_and_wakes_before_its_watermark():
    inputs = CombinedInputs(2)
    inputs.take(0, [Watermark(10)])
    assert inputs.take(1, [IDLE]) == [Watermark(10)]
    assert inputs.take(0, [Watermark(12), IDLE]) == [Watermark(12), IDLE]
    assert inputs.take(1, [ACTIVE, Watermark(13)]) == [ACTIVE, Watermark(13)]
    assert inputs.take(1, [Watermark(13)]) == ()


def test_all_inputs_idle_give_the_highest_watermark_first():
    inputs = CombinedInputs(2)
    inputs.take(0, [Watermark(3)])
    inputs.take(1, [Watermark(8)])
    assert inputs.take(1, [IDLE]) == ()
    assert inputs.take(0, [IDLE]) == [Watermark(8), IDLE]


# What validate() checks from the channels alone.


def test_event_time_is_sound_whatever_comes_in_which_order():
    draw = Random(20)
    for _ in range(150):
        valve = WatermarkValve(draw.randint(1, 4))
        channels = len(valve._idle)
        for _ in range(30):
            channel, is_idle = draw.randrange(channels), draw.random() < 0.5
            if draw.random() < 0.5:
                valve.status(channel, is_idle)
            else:
                valve.watermark(channel, draw.randrange(20))
            valve.validate()
        for channel in range(channels):
            valve.ended(channel, MAX_WATERMARK)
            valve.validate()
        assert valve.emitted == MAX_WATERMARK


def test_channel_that_is_behind_holds_nothing_and_is_sound():
    with_none_aligned().validate()


def test_event_time_that_stays_behind_idle_channels_is_seen():
    valve = with_none_aligned()
    valve.status(1, True)
    valve.validate()
    valve._output = 7
    with pytest.raises(AssertionError, match="stays at 7 though all channels are idle"):
        valve.validate()


def test_event_time_that_no_active_channel_holds_back_is_seen():
    valve = WatermarkValve(3)
    valve.watermark(0, 5)
    valve.watermark(1, 6)
    valve.status(2, True)
    assert valve.emitted == 5
    valve._output = 4
    with pytest.raises(AssertionError, match="stays at 4 though no channel holds it"):
        valve.validate()


def test_input_that_is_taken_for_idle_while_a_channel_is_active_is_seen():
    valve = WatermarkValve(2)
    valve.status(0, True)
    valve._is_idle = True
    with pytest.raises(AssertionError, match="idle"):
        valve.validate()
