"""Settings of a job's execution, under PyFlink's names (PyFlink: ExecutionConfig).

It is a view of the configuration: what is set here is set there, and is checked there.
"""

from __future__ import annotations

from onceproof.engine.configuration import AUTO_WATERMARK_INTERVAL, Configuration


class ExecutionConfig:
    """Reads and sets options of a configuration."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """Ask watermark generators every ``interval`` milliseconds; 0: only at records."""
        self._configuration.set(AUTO_WATERMARK_INTERVAL, interval)
        return self

    def get_auto_watermark_interval(self) -> int:
        """How often watermark generators are asked, in milliseconds."""
        return self._configuration.get(AUTO_WATERMARK_INTERVAL)
