"""The order of tests for several workers: long tests first, and one worker with the shared Spark session."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import LONG, USER, ordered


def a_test(module: str, number: int, *marks: str, fixtures: tuple[str, ...] = ()) -> Any:
    """Return a test item with the attributes on which the order depends."""
    return SimpleNamespace(
        nodeid=f"tests/{module}.py::test_{number}",
        fixturenames=fixtures,
        get_closest_marker=lambda name: name if name in marks else None,
    )


def is_long(test: Any) -> bool:
    return bool(test.fixturenames) or any(test.get_closest_marker(name) for name in LONG)


TESTS = [
    *[a_test("a_plain", number) for number in range(40)],
    *[a_test("b_session", number, "spark", fixtures=("spark",)) for number in range(5)],
    *[a_test("c_driver", number, "spark", "local_kill") for number in range(6)],
    *[a_test("d_plain", number) for number in range(41)],
    *[a_test("e_kills", number, "local_kill") for number in range(3)],
    *[a_test("f_user", number, fixtures=(USER, "tmp_path")) for number in range(4)],
    *[a_test("g_plain", number) for number in range(3)],
]


def dealt_out(tests: list[Any], workers: int) -> list[list[Any]]:
    """Return the tests that pytest-xdist hands each worker first."""
    stretches = []
    for place in range(workers):
        size = len(tests) // (workers - place)
        stretches.append(tests[:size])
        tests = tests[size:]
    return stretches


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_each_worker_starts_with_its_long_tests(workers: int) -> None:
    found = ordered(TESTS, workers)
    assert sorted(test.nodeid for test in found) == sorted(test.nodeid for test in TESTS)
    for stretch in dealt_out(found, workers):
        long = [is_long(test) for test in stretch]
        assert long == sorted(long, reverse=True)
        assert any(long)


def test_one_worker_has_all_tests_of_the_shared_session() -> None:
    first, *others = dealt_out(ordered(TESTS, 3), 3)
    assert [test.nodeid for test in first if is_long(test)] == [
        f"tests/b_session.py::test_{number}" for number in range(5)
    ]
    # The long tests of a module stay together.
    for stretch in others:
        modules = {test.nodeid.partition("::")[0] for test in stretch if is_long(test)}
        assert modules in ({"tests/c_driver.py"}, {"tests/e_kills.py", "tests/f_user.py"})


def test_few_long_tests_are_all_kept() -> None:
    few = [test for test in TESTS if is_long(test)]
    assert sorted(test.nodeid for test in ordered(few, 2)) == sorted(test.nodeid for test in few)


def test_single_process_keeps_the_order() -> None:
    assert ordered(TESTS, 1) == TESTS
