"""What all tests share: a profile of Hypothesis, and one Spark session for each test process.

A start of Spark costs seconds, and a process has one at a time: a test that must start, kill or stop its own
does so in another process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from harness.strategies import register_profiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Before the first test module makes settings of its own: those take over what the profile of the moment says.
register_profiles()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Start Spark at the first test that asks for it; the marker `spark` goes with this fixture."""
    from engine.runtime.spark_session import spark_session

    with spark_session(name="onceproof tests") as session:
        yield session
