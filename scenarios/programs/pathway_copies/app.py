"""Copy records of new files in Pathway, with persistence: app.py INPUT FOLDER files|kafka OUTPUT [BROKER]."""

import sys
from pathlib import Path

import pathway as pw

given, folder, kind, written, *broker = sys.argv[1:]


class Record(pw.Schema):
    """A record; Pathway reserves the name "id" for its own keys."""

    number: int
    key: str


records = pw.io.jsonlines.read(given, schema=Record, name="records", autocommit_duration_ms=50)
if kind == "files":
    pw.io.jsonlines.write(records, str(Path(written) / "copied.jsonl"))
else:
    pw.io.kafka.write(records, {"bootstrap.servers": broker[0]}, written, format="json")
backend = pw.persistence.Backend.filesystem(str(Path(folder) / "state"))
pw.run(
    persistence_config=pw.persistence.Config(backend, snapshot_interval_ms=100),
    monitoring_level=pw.MonitoringLevel.NONE,
)
