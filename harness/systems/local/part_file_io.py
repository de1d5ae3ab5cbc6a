"""Sources and sinks of a family's job that runs without a trial: no faults, part files as output."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from onceproof.engine.connectors.encoders import Encoder
from onceproof.engine.connectors.file_sink_function import FileSinkFunction
from onceproof.engine.connectors.part_files import OutputFileConfig
from onceproof.engine.connectors.source import Source
from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.scenario import Parameter
from onceproof.harness.systems.sinks import SinkKind, SinksByKind

NO_SUCH_END: Final = "`onceproof job run` offers no {}: run this family with `onceproof run`"


class PartFileIO(SinksByKind):
    """The ``JobIO`` of `onceproof job run`: generated records as input, part files as output."""

    def __init__(
        self, source: Source, output: Path, parameters: dict[str, Parameter], parallelism: int
    ) -> None:
        self.parallelism = self.source_parallelism = self.sink_parallelism = parallelism
        self.parameters = parameters
        self._source = source
        self._output = output

    def source(self, name: str) -> Source:
        """Return the source of the generated records."""
        return self._source

    def kafka_source(self, name: str) -> Source:
        """Raise FamilyError: there is no broker to read from."""
        raise FamilyError(NO_SUCH_END.format("source of Kafka"))

    def postgres_lookup(self, name: str, rows: Sequence[tuple[Any, ...]]) -> Any:
        """Raise FamilyError: there is no server to look up in."""
        raise FamilyError(NO_SUCH_END.format("lookup in PostgreSQL"))

    def sink(self, name: str) -> FileSinkFunction:
        """Return a file sink that writes rows as JSON lines and commits them with checkpoints."""
        config = OutputFileConfig(part_prefix=name, part_suffix=".jsonl")
        return FileSinkFunction(str(self._output), Encoder.json_lines_encoder(), config)

    def make_sink(self, kind: SinkKind, name: str, *, keys: int = 0) -> Any:
        """Raise FamilyError: there is no external system to write to."""
        raise FamilyError(NO_SUCH_END.format(f"{kind} sink"))
