"""What all tests share: a profile of Hypothesis, one Spark session for each test process, and an order.

A start of Spark costs seconds, and a process has one at a time: a test that must start, kill or stop its own
does so in another process.

Under pytest-xdist each worker is first handed a stretch of the tests, and one that has done its own takes
over from the end of another's. So what takes long stands first in each stretch, and in the end there are only
short tests to share. All tests of the shared session stand in the first one: most runs start it once, and
find it warm.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from onceproof.harness.generation.strategies import register_profiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Before the first test module makes settings of its own: those take over what the profile of the moment says.
register_profiles()

LONG = ("spark", "local_kill", "slow")
"""Markers of tests that take long."""
USER = "user"
"""The fixture of tests that start pytest and commands, each of which takes seconds."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests for as many workers as there are; without any they stay as they are."""
    items[:] = ordered(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def ordered(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Return the tests in stretches, one a worker, each beginning with what takes long."""
    if workers < 2:
        return list(items)
    sharing: list[pytest.Item] = []
    others: dict[str, list[pytest.Item]] = {}
    short: list[pytest.Item] = []
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "spark" in fixtures:
            sharing.append(item)
        elif USER in fixtures or any(item.get_closest_marker(name) for name in LONG):
            # By module, which may have a driver or a cluster of its own for its tests.
            others.setdefault(item.nodeid.partition("::")[0], []).append(item)
        else:
            short.append(item)
    stretches = [sharing, *[[] for _ in range(workers - 1)]]
    for module in others.values():
        min(stretches[1:], key=len).extend(module)
    found: list[pytest.Item] = []
    for place, stretch in enumerate(stretches):
        # As pytest-xdist deals out: of what is left, the part of one of those who have none yet.
        size = (len(items) - len(found)) // (workers - place)
        fill = max(0, size - len(stretch))
        found += [*stretch, *short[:fill]]
        short = short[fill:]
    return found + short


@pytest.fixture(autouse=True)
def imports_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Forget the modules that a test imported from files of its own, and where it looked for them.

    Families and their packages have the same names in many tests; what else was imported stays.
    """
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    temporary = tmp_path_factory.getbasetemp()
    for name in set(sys.modules) - modules:
        file = getattr(sys.modules[name], "__file__", None)
        if name.startswith("onceproof_family_") or (file and Path(file).is_relative_to(temporary)):
            del sys.modules[name]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Start Spark at the first test that asks for it; the marker `spark` goes with this fixture."""
    from onceproof.engine.runtime.spark_session import spark_session

    with spark_session(name="onceproof tests") as session:
        yield session
