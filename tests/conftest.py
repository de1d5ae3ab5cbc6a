"""What all tests share: a profile of Hypothesis, and one Spark session for each test process.

A start of Spark costs seconds, and a process has one at a time: a test that must start, kill or stop its own
does so in another process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.strategies import register_profiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Before the first test module makes settings of its own: those take over what the profile of the moment says.
register_profiles()


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
    from engine.runtime.spark_session import spark_session

    with spark_session(name="onceproof tests") as session:
        yield session
