"""Our engine's program of the benchmark `sql`, in a process of its own.

    python -m tests.benchmarks.sql_engine SCRIPT INPUT OUTPUT STATE

It runs the kept plan of a script, so neither Flink nor Java is needed. It prints the seconds of the job as a
JSON object: on the processor, and on the wall.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from onceproof.engine.api.datastream import DataStream, StreamExecutionEnvironment
from onceproof.engine.configuration import Configuration
from onceproof.engine.runtime.local import execute
from onceproof.engine.table.api.ends import ProgramTables
from onceproof.engine.table.table_ends import TableEnd
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.translation import translate
from onceproof.engine.watermarks.strategy import WatermarkStrategy
from onceproof.harness.scripts.sql.plans import plan_of
from tests.benchmarks.peer_clock import Stopwatch

PARALLELISM: Final = 2


def files(path: str, form: str) -> dict[str, str]:
    """Return the options of a table in files."""
    return {"connector": "filesystem", "path": Path(path).absolute().as_uri(), "format": form}


class Files(ProgramTables):
    """Puts files to a plan.

    Args:
        given: the options of what is read.
        written: those of what is written.
    """

    def __init__(self, given: Mapping[str, str], written: Mapping[str, str]) -> None:
        super().__init__({})
        self._given, self._written = given, written

    def scan(
        self, environment: StreamExecutionEnvironment, table: TableEnd, watermarks: WatermarkStrategy | None
    ) -> DataStream:
        """Read a table."""
        return super().scan(environment, replace(table, options=self._given), watermarks)

    def sink(self, stream: DataStream, table: TableEnd) -> None:
        """Write a table."""
        super().sink(stream, replace(table, options=self._written))


def main(script: str, given: str, output: str, state: str) -> None:
    """Run a script, and print its seconds."""
    options: dict[str, Any] = {
        "execution.checkpointing.dir": state,
        "execution.checkpointing.interval": "1 s",
        "parallelism.default": PARALLELISM,
    }
    environment = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    tables = Files(files(given, "json"), files(output, "debezium-json"))
    plan = plan_of(Path(script)).plan
    translate(plan, tables, environment, TableSettings({"table.local-time-zone": "UTC"}))
    graph = environment.get_job_graph(Path(script).stem)
    stopwatch = Stopwatch()
    execute(graph)
    print(json.dumps(stopwatch.seconds()))


if __name__ == "__main__":
    main(*sys.argv[1:])
