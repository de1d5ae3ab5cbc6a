"""The time characteristic of Flink 1 (PyFlink: pyflink.datastream.time_characteristic; deprecated)."""

from __future__ import annotations

from enum import Enum


class TimeCharacteristic(Enum):
    """Which time ``KeyedStream.time_window`` means; a window assigner says so by its own name."""

    ProcessingTime = 0
    """The clock of the machine."""
    IngestionTime = 1
    """The timestamps that records get at the source; here, as in Flink since 1.12, the same as EventTime."""
    EventTime = 2
    """The timestamps of the records."""
