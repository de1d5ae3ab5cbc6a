"""The ends of a user's query, recorded in place of Spark's: readers, writers, and the session itself.

Rules:

- ``spark.readStream`` and ``df.writeStream`` record what the file asks for. ``load()`` returns the records of
  the trial, and ``start()`` hands the query over.
- ``df.write`` in a function of foreachBatch writes lines of JSON into the working directory, which the trial
  reads. It appends, replaces or refuses as Spark does, and knows nothing of batches.
- The file gets the session of the driver. Its options of SQL hold, but for those that a trial decides.
"""

from __future__ import annotations

import json
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partialmethod
from pathlib import Path
from typing import Any, Final, TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    FractionalType,
    IntegralType,
    MapType,
    StringType,
    StructType,
)

from onceproof.engine.runtime.spark_session import SPARK_ERRORS
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.systems.structured.sinks import Store

OF_THE_TRIAL: Final = ("spark.sql.shuffle.partitions", "spark.sql.streaming.noDataMicroBatches.enabled")
"""Options that a file may set in vain."""


@dataclass
class Asked:
    """What a file asks of a reader or writer."""

    format: str = ""
    options: dict[str, str] = field(default_factory=dict)
    schema: StructType | None = None
    name: str = ""
    path: str = ""
    mode: str = "append"
    store: Store | None = None
    """The function of foreachBatch."""


class _Recorder:
    """What all of Spark's readers and writers have."""

    def __init__(self) -> None:
        self.asked = Asked()

    def format(self, source: str) -> Any:
        self.asked.format = source.lower()
        return self

    def option(self, key: str, value: Any) -> Any:
        self.asked.options[key.lower()] = str(value)
        return self

    def options(self, **options: Any) -> Any:
        for key, value in options.items():
            self.option(key, value)
        return self

    def _same(self, *values: Any, **settings: Any) -> Any:
        """Stand in for a method that says how something is stored."""
        return self

    def _take(self, path: Any, format: str | None, options: Mapping[str, Any]) -> Asked:
        self.options(**{key: value for key, value in options.items() if value is not None})
        if format:
            self.asked.format = format.lower()
        self.asked.path = str(path or self.asked.options.get("path", ""))
        return self.asked


class _FileEnd(_Recorder, ABC):
    """A reader or writer that has a method for each format of files."""

    @abstractmethod
    def _of_format(self, kind: str, path: str, *rest: Any, **options: Any) -> Any:
        """Read or write files of a format; what follows are the arguments of its method."""

    def _file(self, kind: str, path: str, *rest: Any, **options: Any) -> Any:
        return self._of_format(kind, path, *rest, **options)

    json = partialmethod(_file, "json")
    csv = partialmethod(_file, "csv")
    text = partialmethod(_file, "text")
    orc = partialmethod(_file, "orc")
    parquet = partialmethod(_file, "parquet")
    xml = partialmethod(_file, "xml")


class StreamReader(_FileEnd):
    """``spark.readStream``."""

    def __init__(self, read: Callable[[Asked], DataFrame]) -> None:
        super().__init__()
        self._read = read

    def schema(self, schema: StructType | str) -> StreamReader:
        self.asked.schema = StructType.fromDDL(schema) if isinstance(schema, str) else schema  # type: ignore[assignment]
        return self

    def name(self, name: str) -> StreamReader:
        self.asked.name = name
        return self

    def load(
        self,
        path: str | None = None,
        format: str | None = None,
        schema: StructType | str | None = None,
        **options: Any,
    ) -> DataFrame:
        if schema is not None:
            self.schema(schema)
        return self._read(self._take(path, format, options))

    def table(self, name: str) -> DataFrame:
        return self._read(self._take(name, "table", {}))

    def _of_format(self, kind: str, path: str, schema: Any = None, **options: Any) -> DataFrame:
        return self.load(path, kind, schema, **options)


class StreamWriter(_Recorder):
    """``df.writeStream``."""

    def __init__(self, rows: DataFrame, begin: Callable[[DataFrame, Asked], Any]) -> None:
        super().__init__()
        self._rows, self._begin = rows, begin

    def outputMode(self, mode: str) -> StreamWriter:  # noqa: N802 (the names are Spark's)
        self.asked.mode = mode.lower()
        return self

    def queryName(self, name: str) -> StreamWriter:  # noqa: N802
        self.asked.name = name
        return self

    def foreachBatch(self, function: Store) -> StreamWriter:  # noqa: N802
        self.asked.format, self.asked.store = "foreachBatch", function
        return self

    def foreach(self, function: Any) -> StreamWriter:
        self.asked.format = "foreach"
        return self

    def start(
        self,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,  # noqa: N803
        partitionBy: Any = None,  # noqa: N803
        queryName: str | None = None,  # noqa: N803
        **options: Any,
    ) -> Any:
        if outputMode is not None:
            self.outputMode(outputMode)
        if queryName is not None:
            self.queryName(queryName)
        return self._begin(self._rows, self._take(path, format, options))

    def toTable(self, tableName: str, format: str | None = None, *rest: Any, **options: Any) -> Any:  # noqa: N802, N803
        return self.start(tableName, format or "table", **options)

    trigger = partitionBy = clusterBy = _Recorder._same  # noqa: N815


class BatchWriter(_FileEnd):
    """``df.write``, into files of the working directory."""

    def __init__(self, rows: DataFrame) -> None:
        super().__init__()
        self._rows = rows
        self.asked.mode = "error"

    def mode(self, mode: str | None) -> BatchWriter:
        self.asked.mode = (mode or self.asked.mode).lower()
        return self

    def save(
        self,
        path: str | None = None,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,  # noqa: N803
        **options: Any,
    ) -> None:
        self.mode(mode)
        asked = self._take(path, format, options)
        self._store(asked.path or asked.options.get("dbtable") or asked.format)

    def saveAsTable(self, name: str, format: str | None = None, mode: str | None = None, *rest: Any) -> None:  # noqa: N802
        self.mode(mode)._store(name)

    def insertInto(self, tableName: str, overwrite: bool | None = None) -> None:  # noqa: N802, N803
        self.mode("overwrite" if overwrite else "append")._store(tableName)

    def jdbc(self, url: str, table: str, mode: str | None = None, properties: Any = None) -> None:
        self.mode(mode)._store(table)

    def _of_format(self, kind: str, path: str, mode: str | None = None, **options: Any) -> None:
        self.save(path, kind, mode)

    partitionBy = bucketBy = sortBy = clusterBy = _Recorder._same  # noqa: N815

    def _store(self, place: str) -> None:
        # A place may be an address or a path anywhere: the trial keeps its rows in the working directory.
        short = re.sub(r"\W+", "-", place).strip("-")[-40:]
        path = Path(f"{short}-{zlib.crc32(place.encode()):08x}.jsonl")
        if path.exists() and self.asked.mode in ("error", "errorifexists"):
            raise AnalysisException(f"[PATH_ALREADY_EXISTS] {place} already exists: set the mode")
        if path.exists() and self.asked.mode == "ignore":
            return
        lines = [json.dumps(list(row)) + "\n" for row in flat(self._rows).collect()]
        with path.open("w" if self.asked.mode == "overwrite" else "a", encoding="utf-8") as file:
            file.writelines(lines)


def flat(rows: DataFrame) -> DataFrame:
    """Return rows of strings, numbers and truth values, as they are compared and written as JSON.

    Numbers that differ in their last digits only, as sums in another order do, are one number.
    """
    fields = rows.schema.fields
    names = [f"c{number}" for number in range(len(fields))]
    cells = [_cell(name, field.dataType).alias(name) for name, field in zip(names, fields, strict=True)]
    # By position: a join may have two columns of one name.
    return rows.toDF(*names).select(*cells)


def _cell(name: str, kind: DataType) -> Any:
    match kind:
        case StringType() | BooleanType() | IntegralType():
            return functions.col(name)
        case FractionalType() if kind.typeName() != "decimal":
            return functions.format_string("%.12g", functions.col(name).cast("double")).cast("double")
        case StructType() | ArrayType() | MapType():
            return functions.to_json(name)
        case _ if kind.typeName() == "binary":
            return functions.hex(name)
        case _:
            return functions.col(name).cast("string")


_Patches: TypeAlias = list[tuple[type, str, Any]]


@contextmanager
def replaced_ends(
    session: SparkSession,
    read: Callable[[Asked], DataFrame],
    begin: Callable[[DataFrame, Asked], Any],
) -> Iterator[None]:
    """Let code get the session, read what ``read`` returns, and hand its query to ``begin``."""

    def the_session(builder: Any) -> SparkSession:
        for key, value in builder._options.items():
            if key.startswith("spark.sql.") and key not in OF_THE_TRIAL:
                # One that only a start of Spark can set is not one of a query.
                with suppress(*SPARK_ERRORS):
                    session.conf.set(key, value)
        return session

    patches: _Patches = [
        (SparkSession.Builder, "getOrCreate", the_session),
        (SparkSession, "readStream", property(lambda self: StreamReader(read))),
        (SparkSession, "stop", lambda self: None),
        (ClassicDataFrame, "writeStream", property(lambda rows: StreamWriter(rows, begin))),
        (ClassicDataFrame, "write", property(BatchWriter)),
    ]
    with ExitStack() as stack:
        for owner, name, value in patches:
            stack.enter_context(replaced(owner, name, value))
        yield
