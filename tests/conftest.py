"""What all tests share: one Spark session for each test process, because a start costs seconds.

A process has one Spark at a time: a test that must start, kill or stop its own does so in another process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Start Spark at the first test that asks for it; the marker `spark` goes with this fixture."""
    from engine.runtime.spark_session import spark_session

    with spark_session(name="onceproof tests") as session:
        yield session
