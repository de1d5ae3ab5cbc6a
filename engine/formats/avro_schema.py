"""Schemas of Avro, and the type of the records that they describe (PyFlink: pyflink.datastream.formats.avro).

A record is a dict here, as Avro's own Python packages have it. The schema is read with fastavro, which the
extra ``avro`` brings.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.extras import AVRO, require
from onceproof.engine.types import TypeInformation, Types

LONGEST_SCHEMA_BYTES: Final = 1 << 20


class InvalidAvroSchema(UnrecoverableError, ValueError):
    """A text is not a schema of Avro. The message is one line."""


class AvroSchema:
    """A schema of Avro (PyFlink: AvroSchema). Make one with ``parse_string`` or ``parse_file``."""

    def __init__(self, declared: Any, parsed: Any) -> None:
        self._declared = declared
        self.parsed = parsed
        """The schema as fastavro has it, which does not read it again."""

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """Return the schema of a JSON text.

        Raises:
            InvalidAvroSchema: it is not a schema.
            ExtraMissing: fastavro is not installed.
        """
        return _parsed(json_schema, "the Avro schema")

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """Return the schema of a file.

        Raises:
            InvalidAvroSchema: the file cannot be read, or holds no schema.
            ExtraMissing: fastavro is not installed.
        """
        try:
            with Path(file_path).open("rb") as file:
                data = file.read(LONGEST_SCHEMA_BYTES + 1)
            text = data.decode()
        except OSError as error:
            raise InvalidAvroSchema(
                f"Avro schema {file_path} cannot be read: {error.strerror}: check the path"
            ) from error
        except UnicodeDecodeError as error:
            raise InvalidAvroSchema(f"Avro schema {file_path} is not text: {error.reason}") from error
        if len(data) > LONGEST_SCHEMA_BYTES:
            raise InvalidAvroSchema(f"Avro schema {file_path} is longer than {LONGEST_SCHEMA_BYTES} bytes")
        return _parsed(text, f"Avro schema {file_path}")

    def __str__(self) -> str:
        return json.dumps(self._declared, separators=(",", ":"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AvroSchema) and self._declared == other._declared

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[Callable[[str], AvroSchema], tuple[str]]:
        return AvroSchema.parse_string, (str(self),)


def _parsed(text: str, what: str) -> AvroSchema:
    require(what, AVRO)
    import fastavro

    try:
        declared = json.loads(text)
        return AvroSchema(declared, fastavro.parse_schema(declared))
    except RecursionError:
        reason = "it is nested too deeply"
    except Exception as error:
        # The binding raises errors of its own, KeyError and TypeError, as the mistake has it.
        reason = f"{type(error).__name__}: {error}"
    raise InvalidAvroSchema(f"{what} is not a schema of Avro: {' '.join(reason.split())}") from None


class GenericRecordAvroTypeInfo:
    """The type of a stream of records of a schema: dicts (PyFlink: GenericRecordAvroTypeInfo).

    It is ``Types.DYNAMIC()``: the writer of a file checks the records, the stream takes any plain data.

    Args:
        schema: the schema of the records.

    Raises:
        TypeError: it is not an AvroSchema.
    """

    __slots__ = ()

    def __new__(cls, schema: AvroSchema) -> TypeInformation:  # type: ignore[misc]
        """Return the type that any plain data has."""
        if not isinstance(schema, AvroSchema):
            raise TypeError(f"{schema!r} is not an AvroSchema: make one with AvroSchema.parse_string")
        return Types.DYNAMIC()
