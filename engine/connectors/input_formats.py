"""The formats that ``StreamExecutionEnvironment.create_input`` reads (PyFlink: InputFormat)."""

from __future__ import annotations

from abc import ABC, abstractmethod

from onceproof.engine.connectors.source import Source
from onceproof.engine.types import TypeInformation


class InputFormat(ABC):
    """Reads the records at a place that it knows itself (PyFlink: InputFormat)."""

    @abstractmethod
    def create_source(self) -> Source:
        """Return the source that reads the records."""

    @abstractmethod
    def get_produced_type(self) -> TypeInformation:
        """Return the type of the records."""
