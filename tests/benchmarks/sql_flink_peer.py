"""Flink's program of the benchmark `sql`, which runs in an environment of its own.

    python sql_flink_peer.py STATEMENTS STATE

It executes the statements in a JSON file; the last one is the job. It prints the seconds of all of them as a
JSON object: on the processor, with those of Java, and on the wall. The start of Java is not counted.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from flink_peer import cpu_seconds, settings
from pyflink.table import EnvironmentSettings, TableEnvironment


def main(statements: str, state: str) -> None:
    """Execute the statements, and print their seconds."""
    tables = TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(settings(state)).build()
    )
    cpu, wall = cpu_seconds(), time.perf_counter()
    *ddl, job = json.loads(Path(statements).read_text())
    for statement in ddl:
        tables.execute_sql(statement)
    tables.execute_sql(job).wait()
    print(json.dumps({"cpu": cpu_seconds() - cpu, "wall": time.perf_counter() - wall}))


if __name__ == "__main__":
    main(*sys.argv[1:])
