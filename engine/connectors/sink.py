"""What a sink answers to that is handed over as a description: ``DataStream.sink_to``."""

from __future__ import annotations

from abc import ABC, abstractmethod

from engine.functions import SinkFunction


class Sink(ABC):
    """Describes where values go; each subtask of each attempt asks it for a function of its own."""

    @abstractmethod
    def create_function(self) -> SinkFunction:
        """A new sink function that shares nothing with those made before."""
