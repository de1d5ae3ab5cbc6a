"""Forks processes that read one file of each bulk format, and kills them in the middle of the files.

Run by test_bulk_jobs as a program of its own: ``bulk_job.py FOLDER KILLS``. Each process runs the job at a
parallelism of its own. It is killed when further rows of each file are visible, and the last one runs to the
end. The last line of the output says how many rows of each format were visible at each kill.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from onceproof.engine import (
    AvroBulkWriters,
    AvroInputFormat,
    AvroParquetReaders,
    AvroParquetWriters,
    AvroSchema,
    Configuration,
    CsvBulkWriters,
    CsvReaderFormat,
    CsvSchema,
    DataTypes,
    Encoder,
    FileSink,
    FileSource,
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
    StreamExecutionEnvironment,
)
from onceproof.engine.formats import parquet_files

FORMATS = ("avro", "parquet", "avro-parquet", "csv")
ROWS = 3000
ROWS_PER_GROUP = 700
PAUSE_SECONDS = 0.001
PATIENCE_SECONDS = 600.0
ROW_TYPE = DataTypes.ROW(
    [DataTypes.FIELD("id", DataTypes.BIGINT()), DataTypes.FIELD("name", DataTypes.STRING())]
)
SCHEMA = AvroSchema.parse_string(
    '{"type": "record", "name": "R", "fields": ['
    '{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]}'
)
CSV = CsvSchema.builder().add_number_column("id").add_string_column("name").set_use_header().build()
WRITERS = {
    "avro": AvroBulkWriters.for_generic_record(SCHEMA),
    "parquet": ParquetBulkWriters.for_row_type(ROW_TYPE),
    "avro-parquet": AvroParquetWriters.for_generic_record(SCHEMA),
    "csv": CsvBulkWriters.for_schema(CSV),
}


class File:
    """A file as writers want it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self.length = 0

    def write(self, data: bytes) -> None:
        self.length += self._file.write(data)

    def close(self) -> None:
        self._file.close()


def write_files(folder: Path) -> None:
    """Write one file of each format, of several blocks."""
    parquet_files.ROWS_PER_GROUP = ROWS_PER_GROUP  # type: ignore[misc]
    for name in FORMATS:
        file = File(folder / name)
        writer = WRITERS[name].create(file)
        for begin in range(0, ROWS, 100):
            writer.add_elements(
                [{"id": number, "name": f"n,{number}"} for number in range(begin, begin + 100)]
            )
        writer.finish()
        file.close()


def slowly(name: str, row: object) -> tuple[str, int, str]:
    """Return a plain row; some take a millisecond, so that kills strike files that are half read."""
    number, text = (row["id"], row["name"])  # type: ignore[index]
    if number % 5 == 0:
        time.sleep(PAUSE_SECONDS)
    return name, number, text


def run(folder: Path, parallelism: int) -> None:
    """Run the job to its end."""
    options = {
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "parallelism.default": parallelism,
        "pipeline.max-parallelism": 12,
        "pipeline.buffer-records": 5,
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_mapping(options))
    sources = {
        "parquet": FileSource.for_bulk_file_format(
            ParquetColumnarRowInputFormat(ROW_TYPE, batch_size=64), str(folder / "parquet")
        ),
        "avro-parquet": FileSource.for_record_stream_format(
            AvroParquetReaders.for_generic_record(SCHEMA), str(folder / "avro-parquet")
        ),
        "csv": FileSource.for_record_stream_format(CsvReaderFormat.for_schema(CSV), str(folder / "csv")),
    }
    streams = {name: env.from_source(builder.build(), None, name) for name, builder in sources.items()}
    streams["avro"] = env.create_input(AvroInputFormat(str(folder / "avro"), SCHEMA))
    rows = [
        streams[name].uid(name).map(lambda row, name=name: slowly(name, row)).uid(f"{name} rows")
        for name in FORMATS
    ]
    sink = FileSink.for_row_format(str(folder / "rows"), Encoder.json_lines_encoder()).build()
    rows[0].union(*rows[1:]).sink_to(sink).uid("rows")
    env.execute("bulk formats")


def start(folder: Path, parallelism: int) -> int:
    """Fork a process that runs the job; return its id."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            run(folder, parallelism)
            status = 0
        finally:
            os._exit(status)
    return child


def visible(folder: Path) -> dict[str, list[int]]:
    """Return the numbers of the visible rows of each format."""
    found: dict[str, list[int]] = {name: [] for name in FORMATS}
    for path in (folder / "rows").glob("part-*"):
        for line in path.read_text().splitlines():
            name, number, text = json.loads(line)
            if text != f"n,{number}":
                sys.exit(f"row {line} is wrong")
            found[name].append(number)
    return found


def main() -> None:
    folder, kills = Path(sys.argv[1]), int(sys.argv[2])
    write_files(folder)
    counts: list[dict[str, int]] = []
    for kill in range(kills):
        child = start(folder, 1 + kill)
        wanted = {name: (counts[-1][name] if counts else 0) + 1 for name in FORMATS}
        deadline = time.monotonic() + PATIENCE_SECONDS
        while any(len(visible(folder)[name]) < count for name, count in wanted.items()):
            if time.monotonic() > deadline:
                sys.exit("no rows became visible")
            time.sleep(0.02)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            sys.exit("the job ended by itself")
        counts.append({name: len(numbers) for name, numbers in visible(folder).items()})
    _, status = os.waitpid(start(folder, 2), 0)
    if status != 0:
        sys.exit("the job failed")
    print(json.dumps({"killed": counts, "rows": visible(folder)}))


if __name__ == "__main__":
    main()
