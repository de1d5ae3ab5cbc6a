"""Rows as messages of JSON (PyFlink: pyflink.datastream.formats.json).

The rules this module lives by:

- A row is an object with a member for each field, in the order of the fields. The fields of a row without
  names are ``f0``, ``f1`` and so on. Members that the type does not name are left out.
- Values are read as Flink reads them: a number from a text, the whole part of 1.9 for INT and LONG, a text
  from anything, false from all that is not true. Times end in Z and are in UTC.
- A member that is missing is None, or malformed with ``fail_on_missing_field``. With ``ignore_parse_errors``
  a field that cannot be read is None, and a message that is not JSON is left out.
- What Flink loses unseen is malformed here: a second document in a message, a number where bytes are
  declared, a list where a map is declared, half of a surrogate pair.
- A document nested deeper than 200 levels is malformed, so that none from outside exhausts the stack.
"""

from __future__ import annotations

from typing import Any, Final

from onceproof.engine.formats.bulk_writers import WrongRow
from onceproof.engine.formats.json_schema import row_type_of_json_schema
from onceproof.engine.formats.json_values import JsonReader, document_of, has_decimals, row_writer
from onceproof.engine.formats.message_schemas import (
    DeserializationSchema,
    MalformedMessage,
    SerializationSchema,
    checked_row_type,
    shown,
)
from onceproof.engine.types import TypeInformation, WrongValue
from onceproof.engine.types.row import RowType

_MEND: Final = "correct the message or the type, or drop what cannot be read with ignore_parse_errors()"


class JsonRowDeserializationSchema(DeserializationSchema):
    """Makes rows of JSON objects (PyFlink: JsonRowDeserializationSchema). Make one with ``builder()``."""

    def __init__(self, row_type: RowType, fails_on_missing: bool, ignores_errors: bool) -> None:
        self._row_type = row_type
        self._fails_on_missing = fails_on_missing
        self._ignores_errors = ignores_errors
        self._has_decimals = has_decimals(row_type)
        self._convert = JsonReader(fails_on_missing, ignores_errors).nullable(row_type, "the row")

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Return a builder without a type."""
        return JsonRowDeserializationSchema.Builder()

    def deserialize(self, message: bytes) -> Any:
        """Return the row of a message; None for null, and for what is ignored. Raises MalformedMessage."""
        try:
            return self._convert(document_of(message, self._has_decimals))
        except (ValueError, RecursionError) as error:
            if self._ignores_errors:
                return None
            what = "it is nested too deeply" if isinstance(error, RecursionError) else error
            raise MalformedMessage(
                f"the message {shown(message)} is not a row of JSON: {what}; {_MEND}"
            ) from None

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return self._row_type

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._row_type, self._fails_on_missing, self._ignores_errors)

    class Builder:
        """Builds a JsonRowDeserializationSchema. Each method returns the builder."""

        def __init__(self) -> None:
            self._type_info: RowType | None = None
            self._fail_on_missing_field = False
            self._ignore_parse_errors = False

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            """Set the type of the rows. Raises TypeError where it is not a type of rows."""
            self._type_info = checked_row_type(type_info)
            return self

        def json_schema(self, json_schema: str) -> JsonRowDeserializationSchema.Builder:
            """Take the type of the rows from a JSON schema. Raises InvalidJsonSchema."""
            self._type_info = checked_row_type(row_type_of_json_schema(json_schema))
            return self

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            """Refuse a message that lacks a field, which is None otherwise."""
            self._fail_on_missing_field = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            """Leave out messages that are no JSON, and make None of fields that cannot be read."""
            self._ignore_parse_errors = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            """Return the schema.

            Raises:
                TypeError: no type is set, or a field has a type that JSON does not carry.
                ValueError: a missing field is to be refused and to be ignored.
            """
            if self._type_info is None:
                raise TypeError("the schema has no type: set it with type_info or json_schema")
            if self._fail_on_missing_field and self._ignore_parse_errors:
                raise ValueError(
                    "fail_on_missing_field and ignore_parse_errors contradict each other: leave one out"
                )
            return JsonRowDeserializationSchema(
                self._type_info, self._fail_on_missing_field, self._ignore_parse_errors
            )


class JsonRowSerializationSchema(SerializationSchema):
    """Makes JSON objects of rows (PyFlink: JsonRowSerializationSchema). Make one with ``builder()``."""

    def __init__(self, row_type: RowType) -> None:
        self._row_type = row_type
        self._converter = row_type.converter()
        self._write = row_writer(row_type, "the row")

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Return a builder without a type."""
        return JsonRowSerializationSchema.Builder()

    def serialize(self, element: Any) -> bytes:
        """Return the message of a row. Raises WrongRow for one that does not match the type."""
        try:
            return self._write(self._converter(element)).encode()
        except (WrongValue, ValueError) as error:
            raise WrongRow(element, error) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._row_type,)

    class Builder:
        """Builds a JsonRowSerializationSchema. Each method returns the builder."""

        def __init__(self) -> None:
            self._type_info: RowType | None = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            """Set the type of the rows. Raises TypeError where it is not a type of rows."""
            self._type_info = checked_row_type(type_info)
            return self

        def build(self) -> JsonRowSerializationSchema:
            """Return the schema. Raises TypeError where no type is set, or JSON does not carry a field."""
            if self._type_info is None:
                raise TypeError("the schema has no type: set it with with_type_info")
            return JsonRowSerializationSchema(self._type_info)
