"""Shared by all tests: the Hypothesis profiles, one Spark session per test process, and the order of tests.

A start of Spark takes seconds, and a process has one Spark at a time. A test that must start, kill or stop
its own does so in another process.

pytest-xdist hands each worker a stretch of the tests; a worker that has finished takes tests from the end of
another's stretch. So long tests come first in each stretch, and only short tests are left to share. All tests
of the shared Spark session are in the first stretch, so that most runs start it once.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.left_processes import LeftProcesses
from tests.property_shards import register_profiles
from tests.servers import (
    SERVERS,
    database,
    kafka_broker,
    object_store,
    object_store_server,
    postgres_server,
)

__all__ = ["database", "kafka_broker", "object_store", "object_store_server", "postgres_server"]

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Before the first test module makes its own settings, which copy those of the active profile.
register_profiles()

LONG = ("spark", "local_kill", "slow")
"""Markers of long tests."""
KILLED_ELSEWHERE = "killed elsewhere"
"""The property of a test whose planted bug its recorded scenario no longer kills."""
LEFT_PROCESSES = pytest.StashKey[LeftProcesses]()
USER = "user"
"""The fixture of tests that start pytest and commands in processes, which takes seconds."""


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background commands so. The processes that tests interrupt would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the tests of power cuts and of kills: more of them, with another seed."""
    parser.addoption("--power-cuts", type=int, default=8, help="power cuts to rebuild from each recording")
    parser.addoption("--power-seed", type=int, default=1, help="seed of the power cuts")
    parser.addoption("--kills", type=int, default=12, help="processes to kill at random moments")
    parser.addoption("--kill-seed", type=int, default=1, help="seed of the kills")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the planted bugs that their recorded scenarios no longer kill. To search them takes long."""
    reports = (each for name in ("passed", "failed") for each in terminalreporter.getreports(name))
    elsewhere = sorted(
        str(value) for each in reports for name, value in each.user_properties if name == KILLED_ELSEWHERE
    )
    if elsewhere:
        terminalreporter.section("planted bugs that were searched")
        terminalreporter.line(" ".join(elsewhere))
        terminalreporter.line("`python -m tests.planted.kills` records where they die now")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Give the processes that the body of a test starts its name."""
    module = item.nodeid.partition("::")[0]
    left = item.config.stash.get(LEFT_PROCESSES, None)
    if left is None or left.module != module:
        left = item.config.stash[LEFT_PROCESSES] = LeftProcesses(module)
    left.begin(item.name)
    try:
        return (yield)
    finally:
        left.end()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Fail a module whose tests have left processes running."""
    yield
    left = item.config.stash.get(LEFT_PROCESSES, None)
    if left is None or (nextitem is not None and nextitem.nodeid.partition("::")[0] == left.module):
        return
    del item.config.stash[LEFT_PROCESSES]
    if found := left.found():
        pytest.fail("tests leave processes running:\n" + "\n".join(found), pytrace=False)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests for the workers of pytest-xdist; without workers keep the order."""
    items[:] = ordered(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def pytest_collection_finish() -> None:
    """Let this process and those that the tests start write no more bytecode, and freeze what is there.

    Bytecode is valid for a source of the same size and second, and tests write a module again within a
    second. What is there are ten thousand tests, which stay until the end: each full collection of garbage
    would look through them.
    """
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    gc.collect()
    gc.freeze()


def ordered(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Return the tests in one stretch per worker, each with its long tests first."""
    if workers < 2:
        return list(items)
    sharing: list[pytest.Item] = []
    others: dict[str, list[pytest.Item]] = {}
    short: list[pytest.Item] = []
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "spark" in fixtures:
            sharing.append(item)
        elif server := next((name for name in SERVERS if name in fixtures), None):
            # A start takes seconds, so one process has all tests of a server.
            others.setdefault(server, []).append(item)
        elif USER in fixtures or any(item.get_closest_marker(name) for name in LONG):
            # Modules stay together, because a module may share a driver or a cluster among its tests.
            others.setdefault(item.nodeid.partition("::")[0], []).append(item)
        else:
            short.append(item)
    stretches = [sharing, *[[] for _ in range(workers - 1)]]
    for module in others.values():
        min(stretches[1:], key=len).extend(module)
    found: list[pytest.Item] = []
    for place, stretch in enumerate(stretches):
        # The rule of pytest-xdist: the remaining tests divided by the remaining workers.
        size = (len(items) - len(found)) // (workers - place)
        fill = max(0, size - len(stretch))
        found += [*stretch, *short[:fill]]
        short = short[fill:]
    return found + short


@pytest.fixture(autouse=True)
def imports_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Unload the modules that a test imported from its own files, and restore ``sys.path``.

    Families have the same module names in many tests. Other modules stay loaded.
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
    """Return the shared Spark session; tests that use it have the marker `spark`."""
    from onceproof.engine.runtime.spark_session import spark_session

    with spark_session(name="onceproof tests") as session:
        yield session
