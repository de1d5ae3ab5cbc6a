"""The records of a user's query: where they come from, and how a scenario holds them.

Rules:

- A scenario holds each record as its text: a line of JSON, or what a topic, socket or file of text has. A
  column ``timestamp`` that the source itself makes is the time of the record, a realistic one.
- Records are those of a sample, else the query's own files and numbers, else drawn from the declared schema.
  A source that has none of these needs a sample: one line says so.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    FractionalType,
    IntegralType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from onceproof.engine.outside_files import read_at_most
from onceproof.harness.model.family import FamilyError
from onceproof.harness.model.sample_records import DRAWN_RECORDS, MOST_BYTES, MOST_RECORDS, drawn_value
from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.model.split_names import split_name
from onceproof.harness.systems.structured.queries.event_times import FIRST_TIME
from onceproof.harness.systems.structured.queries.replaced_ends import Asked
from onceproof.harness.systems.structured.source import COLUMNS

_NUMBERED: Final = ("rate", "rate-micro-batch")
_TEXTS: Final = ("kafka", "socket", "text")
_FILES: Final = ("json", "csv", "parquet", "orc", "text", "xml")

RECORD_COLUMNS: Final = f"{COLUMNS}, value STRING"


def texts_of(session: SparkSession, name: str, asked: Asked, sample: Path | None) -> tuple[list[str], str]:
    """Return the texts of a source's records, and where they are from. Raises FamilyError."""
    if sample is not None:
        texts = _sample_texts(session, sample, asked)
        if not texts:
            raise FamilyError(f"{sample}: a sample needs at least one record")
        return texts[:MOST_RECORDS], f"of {sample.name}"
    if asked.format in _NUMBERED:
        return [str(number) for number in range(DRAWN_RECORDS)], "numbered, one in a second"
    if asked.format in _FILES and asked.path and (texts := _own_texts(session, asked)):
        return texts, f"of {asked.path}"
    schema = asked.schema
    if schema is not None and asked.format not in _TEXTS and (texts := _drawn_texts(schema)):
        return texts, "drawn from its schema"
    raise FamilyError(
        f"the records of the source {name!r} are not on this machine: give some with --sample {name}=FILE,"
        " lines of JSON, CSV, Parquet or text"
    )


def _sample_texts(session: SparkSession, sample: Path, asked: Asked) -> list[str]:
    kind = sample.suffix.removeprefix(".")
    if kind == "parquet" or (kind == "csv" and asked.format not in _TEXTS):
        rows = session.read.options(header=True, inferSchema=True).format(kind).load(str(sample))
        return [str(text) for text in rows.limit(MOST_RECORDS).toJSON().collect()]
    try:
        lines = read_at_most(sample, MOST_BYTES).decode().splitlines()
        texts = [line for line in lines if line.strip()]
        if asked.format not in _TEXTS:
            for text in texts:
                json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise FamilyError(f"{sample}: cannot be read as a sample: {error}") from None
    return texts


def _own_texts(session: SparkSession, asked: Asked) -> list[str]:
    """Return what the files of a query hold; nothing if there are none."""
    folder = Path(asked.path.removeprefix("file://").split("*")[0])
    if not folder.exists():
        return []
    reader = session.read.format(asked.format).options(**asked.options)
    rows = (reader if asked.schema is None else reader.schema(asked.schema)).load(asked.path)
    if asked.format == "text":
        return [row.value for row in rows.limit(MOST_RECORDS).collect()]
    return [str(text) for text in rows.limit(MOST_RECORDS).toJSON().collect()]


def _drawn_texts(schema: StructType) -> list[str]:
    random = Random(1)
    texts = []
    for number in range(DRAWN_RECORDS):
        cells = {each.name: _drawn(each.dataType, random, number) for each in schema.fields}
        texts.append(json.dumps(cells))
    return texts


def _drawn(kind: DataType, random: Random, number: int) -> Any:
    match kind:
        case StringType():
            return drawn_value(str, random)
        case BooleanType():
            return drawn_value(bool, random)
        case IntegralType():
            return drawn_value(int, random)
        case FractionalType():
            return drawn_value(float, random)
        case TimestampType() | TimestampNTZType():
            return (FIRST_TIME + timedelta(seconds=20 * number)).strftime("%Y-%m-%dT%H:%M:%S")
        case DateType():
            return FIRST_TIME.strftime("%Y-%m-%d")
        case StructType():
            return {each.name: _drawn(each.dataType, random, number) for each in kind.fields}
        case ArrayType():
            return [_drawn(kind.elementType, random, number) for _ in range(int(random.random() * 3))]
    return None


# As the query reads them.


def parsed(
    session: SparkSession, records: DataFrame, name: str, asked: Asked, sample: Path | None
) -> DataFrame:
    """Return records of a scenario with the columns of a source."""
    time = functions.timestamp_millis("timestamp").alias("timestamp")
    match asked.format:
        case "kafka":
            return records.select(
                functions.lit(None).cast("binary").alias("key"),
                functions.col("value").cast("binary").alias("value"),
                functions.lit(name).alias("topic"),
                functions.substring_index("split", ".", -1).try_cast("int").alias("partition"),
                functions.col("offset"),
                time,
                functions.lit(0).alias("timestampType"),
            )
        case "rate" | "rate-micro-batch":
            return records.select(time, functions.col("value").cast("long").alias("value"))
        case "socket" | "text":
            has_time = asked.options.get("includetimestamp", "").lower() == "true"
            return records.select("value", *[time][: int(has_time)])
    schema = asked.schema or _schema_of(session, sample, asked)
    if schema is None:
        raise FamilyError(f"the source {name!r} has no schema: give records with --sample {name}=FILE")
    return records.select(functions.from_json("value", schema).alias("record")).select("record.*")


def _schema_of(session: SparkSession, sample: Path | None, asked: Asked) -> StructType | None:
    place = str(sample) if sample is not None else asked.path
    if not place:
        return None
    kind = sample.suffix.removeprefix(".") if sample is not None else asked.format
    return _inferred(session, place, "json" if kind == "jsonl" else kind)


@lru_cache(maxsize=32)
def _inferred(session: SparkSession, place: str, kind: str) -> StructType:
    options = {"inferTimestamp": True, "header": True, "inferSchema": True}
    return session.read.format(kind).options(**options).load(place).schema


def batch_records(session: SparkSession, name: str, records: Sequence[InputRecord]) -> DataFrame:
    """Return the records of a source in their order."""
    rows = [(split_name(name, 0), offset, time, text) for offset, (time, text) in enumerate(records)]
    return session.createDataFrame(rows, RECORD_COLUMNS).coalesce(1)
