"""Errors of user code that come again in the same way: how they are counted."""

from __future__ import annotations

import pytest

from onceproof.engine.errors import Interrupted, TransientError, repeatable
from onceproof.engine.job.restart_strategies import EqualErrors
from onceproof.engine.runtime.execution import Killed

ERROR = (1, "ValueError: no number", 4, 2)
"""Vertex, text, buffers taken, the latest checkpoint."""


def test_third_equal_error_is_one_too_many() -> None:
    errors = EqualErrors(3)
    assert [errors.notify_failure(*ERROR) for _ in range(4)] == [False, False, True, True]


@pytest.mark.parametrize(
    "other",
    [
        (2, "ValueError: no number", 4, 2),
        (1, "ValueError: no word", 4, 2),
        (1, "ValueError: no number", 5, 2),
        (1, "ValueError: no number", 4, 3),
        (1, "", 4, 2),
    ],
    ids=["other operator", "other text", "further on", "after a checkpoint", "a kill"],
)
def test_any_other_failure_begins_the_count_anew(other: tuple[int, str, int, int]) -> None:
    errors = EqualErrors(3)
    failures = [ERROR, ERROR, other, ERROR, ERROR, ERROR]
    assert [errors.notify_failure(*each) for each in failures] == [False] * 5 + [True]


def test_kills_and_errors_without_a_limit_are_never_too_many() -> None:
    unlimited = EqualErrors(0)
    assert not any(unlimited.notify_failure(*ERROR) for _ in range(100))
    limited = EqualErrors(3)
    assert not any(limited.notify_failure(1, "", 0, 0) for _ in range(100))


def raised_from(cause: BaseException) -> Exception:
    try:
        raise RuntimeError("lookup failed") from cause
    except RuntimeError as error:
        return error


def test_errors_of_storage_and_network_may_pass() -> None:
    assert repeatable(ValueError("no number"))
    assert repeatable(raised_from(KeyError("a")))
    for passing in (ConnectionRefusedError(), TransientError(), raised_from(TimeoutError())):
        assert not repeatable(passing)


def test_what_leaves_a_function_repeats_but_kills_and_interrupts_do_not() -> None:
    assert repeatable(SystemExit(1))
    assert repeatable(GeneratorExit())
    for passing in (Killed(), Interrupted(), KeyboardInterrupt()):
        assert not repeatable(passing)


def raised_while(handled: BaseException, *, hides: bool) -> Exception:
    """Return an error that was raised while another one was handled."""
    try:
        try:
            raise handled
        except OSError:
            if hides:
                raise RuntimeError("lookup failed") from None
            raise RuntimeError("lookup failed")  # noqa: B904 - what user code does, and what is tried here
    except RuntimeError as error:
        return error


def test_error_raised_while_one_of_the_network_is_handled_may_pass() -> None:
    assert not repeatable(raised_while(ConnectionRefusedError(), hides=False))
    assert repeatable(raised_while(ConnectionRefusedError(), hides=True)), "user code hides it"


def test_error_that_is_its_own_cause_is_judged_by_itself() -> None:
    error = ValueError("no number")
    error.__cause__ = error
    assert repeatable(error)
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert repeatable(first)
