"""Schemas of messages: from a value to bytes and back (PyFlink: SerializationSchema, DeserializationSchema).

The rules this module lives by:

- A schema has no state: the same bytes give the same value in every task and attempt. It is pickled with the
  source or sink that uses it.
- A message that the schema does not understand is a MalformedMessage, whose text says what is wrong and how
  to mend it. Who reads the messages adds where it came from.
- A value that the schema does not take is a WrongRow, as where a file is written.
- None instead of a value means that the message stands for no value: it is left out, not an error.
- Text that a charset does not know is refused. Java replaces it, so that the message is lost unseen.
"""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final

from onceproof.engine.errors import UnrecoverableError
from onceproof.engine.formats.bulk_writers import WrongRow
from onceproof.engine.types import Row, TypeInformation, Types
from onceproof.engine.types.row import RowType

LONGEST_SHOWN: Final = 60


class MalformedMessage(UnrecoverableError, ValueError):
    """A message does not match its schema. The text is one line."""

    def __init__(self, what: object) -> None:
        super().__init__(" ".join(str(what).split()))


def shown(value: object) -> str:
    """Return a value from outside as a message shows it: quoted, in one line, and short."""
    text = repr(value[: LONGEST_SHOWN + 1] if isinstance(value, str | bytes) else value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."


def checked_row_type(type_info: Any) -> RowType:
    """Return a type of rows as what it is. Raises TypeError for another object."""
    if not isinstance(type_info, RowType):
        raise TypeError(f"{type_info!r} is not a type of rows: give Types.ROW_NAMED([names], [types])")
    return type_info


class DeserializationSchema(ABC):
    """Makes values of messages (PyFlink: DeserializationSchema).

    A schema of one's own defines ``deserialize`` and ``get_produced_type``.
    """

    @abstractmethod
    def deserialize(self, message: bytes) -> Any:
        """Return the value of a message; None where it stands for none. Raises MalformedMessage."""

    @abstractmethod
    def get_produced_type(self) -> TypeInformation:
        """Return the type of the values."""

    def deserialize_all(self, message: bytes) -> Sequence[Any]:
        """Return the values of a message, in order (Flink: ``deserialize`` with a Collector).

        By default the one of ``deserialize``, or none. Raises MalformedMessage.
        """
        value = self.deserialize(message)
        return () if value is None else (value,)

    def is_end_of_stream(self, next_element: Any) -> bool:
        """Return whether the stream ends before this value: never by default."""
        return False


class SerializationSchema(ABC):
    """Makes messages of values (PyFlink: SerializationSchema). One of one's own defines ``serialize``."""

    @abstractmethod
    def serialize(self, element: Any) -> bytes:
        """Return the message of a value. Raises WrongRow for one that the schema does not take."""


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """A message is a text (PyFlink: SimpleStringSchema).

    Args:
        charset: the encoding of the texts.

    Raises:
        ValueError: the charset is not known.
    """

    def __init__(self, charset: str = "UTF-8") -> None:
        try:
            "".encode(charset)
        except (LookupError, TypeError, ValueError):
            raise ValueError(f"charset {charset!r} is not known: give one such as UTF-8") from None
        self._charset = charset
        # Java's UTF-16 is big-endian where no byte order mark says otherwise; Python's is the machine's.
        self._is_utf_16 = codecs.lookup(charset).name == "utf-16"

    def serialize(self, element: Any) -> bytes:
        """Return the text in the charset. Raises WrongRow for another value or a character it lacks."""
        if not isinstance(element, str):
            raise WrongRow(element, f"{type(element).__name__} is not text: map it to text before")
        try:
            if self._is_utf_16:
                return codecs.BOM_UTF16_BE + element.encode("utf-16-be")
            return element.encode(self._charset)
        except UnicodeEncodeError as error:
            raise WrongRow(element, f"{self._charset} lacks {element[error.start]!r}") from error

    def deserialize(self, message: bytes) -> str:
        """Return the text. Raises MalformedMessage for bytes that are none in the charset."""
        try:
            if self._is_utf_16 and message[:2] not in (codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE):
                return message.decode("utf-16-be")
            return message.decode(self._charset)
        except UnicodeDecodeError as error:
            raise MalformedMessage(
                f"byte 0x{message[error.start]:02x} at {error.start} is not {self._charset}:"
                " name the right charset, or read bytes with ByteArraySchema and decode them in a map"
            ) from error

    def get_produced_type(self) -> TypeInformation:
        """Return STRING."""
        return Types.STRING()


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """A message is the bytes themselves (PyFlink: ByteArraySchema)."""

    def serialize(self, element: Any) -> bytes:
        """Return the bytes. Raises WrongRow for another value."""
        if not isinstance(element, bytes | bytearray | memoryview):
            raise WrongRow(element, f"{type(element).__name__} is not bytes: encode it in a map before")
        return bytes(element)

    def deserialize(self, message: bytes) -> bytes:
        """Return the message."""
        return message

    def get_produced_type(self) -> TypeInformation:
        """Return PRIMITIVE_ARRAY(BYTE)."""
        return Types.PRIMITIVE_ARRAY(Types.BYTE())


class RowFieldExtractorSchema(SerializationSchema):
    """A message is one field of a row, which holds bytes (PyFlink: RowFieldExtractorSchema).

    As the schema of a key and of a value, it makes messages of Kafka from rows of two fields.
    """

    def __init__(self, field_index: int) -> None:
        """Extract the field at an index from 0 on. Raises ValueError."""
        if field_index < 0:
            raise ValueError(f"Field index must be non-negative, got: {field_index}")
        self._index = field_index

    def serialize(self, element: Any) -> bytes:
        """Return the bytes of the field. Raises WrongRow for a row without it, and for another value."""
        if not isinstance(element, Row | tuple | list):
            raise WrongRow(
                element, f"{type(element).__name__} is not a row: give a Row with bytes in its fields"
            )
        if self._index >= len(element):
            raise WrongRow(element, f"there is no field {self._index}: the row has {len(element)}")
        value = element[self._index]
        if not isinstance(value, bytes | bytearray | memoryview):
            what = f"field {self._index} is {type(value).__name__}, not bytes"
            raise WrongRow(element, f"{what}: encode it in a map before")
        return bytes(value)
