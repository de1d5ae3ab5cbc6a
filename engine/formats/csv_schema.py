"""Schemas of CSV files: their columns, and the signs between them (PyFlink: CsvSchema).

The rules this module lives by:

- A column is text, a number, true or false, or an array of such, whose elements a sign of its own separates.
- The defaults are those of Jackson, which PyFlink uses: commas, double quotes, no header, no escape sign, no
  null value.
- Names are asked for in the order of the columns; a file with a header may have them in another order.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from onceproof.engine.types import TypeInformation, Types
from onceproof.engine.types.composite import ListType
from onceproof.engine.types.information import of_streams

NUMBERS: Final = frozenset(("BYTE", "SHORT", "INT", "LONG", "BIG_INT", "FLOAT", "DOUBLE", "BIG_DEC"))
ELEMENTS: Final = NUMBERS | {"STRING", "BOOLEAN"}


class CsvColumn(Struct, frozen=True):
    """A column: its name, the type of its values, and what separates the elements of an array."""

    name: str
    type: TypeInformation
    separator: str | None = None
    """None: as the schema says."""

    @property
    def element_type(self) -> TypeInformation | None:
        """The type of an array's elements; None where the column is no array."""
        return self.type.element if isinstance(self.type, ListType) else None


class CsvForm(Struct, frozen=True):
    """The signs of a CSV file."""

    column_separator: str = ","
    line_separator: str = "\n"
    array_separator: str = ";"
    quote: str | None = '"'
    escape: str | None = None
    null_value: str | None = None
    uses_header: bool = False
    strict_headers: bool = False
    skips_first_row: bool = False
    allows_comments: bool = False


class CsvSchema:
    """The columns and signs of a CSV file (PyFlink: CsvSchema). Make one with ``CsvSchema.builder()``."""

    def __init__(self, columns: tuple[CsvColumn, ...], form: CsvForm) -> None:
        self.columns = columns
        self.form = form

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """Return a builder of a schema without columns."""
        return CsvSchemaBuilder()

    @property
    def row_type(self) -> TypeInformation:
        """The type of the rows: ROW_NAMED of the columns."""
        return Types.ROW_NAMED(
            [column.name for column in self.columns], [column.type for column in self.columns]
        )

    def size(self) -> int:
        """Return the number of columns."""
        return len(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __repr__(self) -> str:
        columns = ", ".join([f"{column.name}: {column.type.name}" for column in self.columns])
        return f"CsvSchema({columns})"


class CsvSchemaBuilder:
    """Builds a CsvSchema (PyFlink: CsvSchemaBuilder). Each method returns the builder.

    Raises:
        ValueError: a sign is not one character, a name is given twice, or there is no column.
        TypeError: a column cannot have the type.
    """

    def __init__(self) -> None:
        self._columns: list[CsvColumn] = []
        self._form = CsvForm()

    def build(self) -> CsvSchema:
        """Return the schema."""
        if not self._columns:
            raise ValueError("the CSV schema has no column: add those that a row is made of")
        form = self._form
        signs = [form.column_separator, form.quote, form.escape]
        used = [sign for sign in signs if sign is not None]
        if len(set(used)) < len(used):
            raise ValueError(f"two signs of the CSV schema are the same: {', '.join(map(repr, used))}")
        return CsvSchema(tuple(self._columns), form)

    def add_array_column(
        self, name: str, separator: str = ";", element_type: TypeInformation | None = None
    ) -> CsvSchemaBuilder:
        """Add a column of arrays of text, or of another type, with a sign between the elements."""
        element = Types.STRING() if element_type is None else of_streams(element_type)
        if getattr(element, "name", "") not in ELEMENTS:
            raise TypeError(f"column {name!r} cannot be an array of {element!r}: {_ADVICE}")
        return self._add(CsvColumn(name, Types.LIST(element), sign("array separator", separator, "")))

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of true and false."""
        return self._add(CsvColumn(name, Types.BOOLEAN()))

    def add_number_column(self, name: str, number_type: TypeInformation | None = None) -> CsvSchemaBuilder:
        """Add a column of numbers: of integers of 64 bits, or of another type."""
        number = Types.LONG() if number_type is None else of_streams(number_type)
        if getattr(number, "name", "") not in NUMBERS:
            raise TypeError(f"column {name!r} cannot be a number of type {number!r}: {_ADVICE}")
        return self._add(CsvColumn(name, number))

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of text."""
        return self._add(CsvColumn(name, Types.STRING()))

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        """Add all columns of another schema."""
        for column in schema.columns:
            self._add(column)
        return self

    def clear_columns(self) -> CsvSchemaBuilder:
        """Remove all columns."""
        self._columns.clear()
        return self

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Take lines that begin with ``#`` for comments."""
        return self._set(allows_comments=allow)

    def disable_array_element_separator(self) -> CsvSchemaBuilder:
        """Take arrays for one element."""
        self._columns = [replace(column, separator="") for column in self._columns]
        return self._set(array_separator="")

    def remove_array_element_separator(self, index: int) -> CsvSchemaBuilder:
        """Take the arrays of the column at an index for one element."""
        self._columns[index] = replace(self._columns[index], separator="")
        return self

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        """Set what separates the elements of arrays whose column has no separator of its own."""
        return self._set(array_separator=sign("array separator", separator, ""))

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        """Set what separates columns; a comma by default."""
        return self._set(column_separator=sign("column separator", char))

    def disable_escape_char(self) -> CsvSchemaBuilder:
        """Take every sign in a field for itself, as by default."""
        return self._set(escape=None)

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        """Set the sign behind which any sign counts for itself."""
        return self._set(escape=sign("escape sign", char))

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        """Set what ends a line that is written: a newline, or a carriage return and a newline."""
        if separator not in ("\n", "\r\n"):
            raise ValueError(f"line separator {separator!r} must be '\\n' or '\\r\\n'")
        return self._set(line_separator=separator)

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        """Set the text that stands for None."""
        return self._set(null_value=null_value)

    def disable_quote_char(self) -> CsvSchemaBuilder:
        """Neither write nor expect quotes."""
        return self._set(quote=None)

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        """Set the sign around fields that hold other signs."""
        return self._set(quote=sign("quote", char))

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        """Leave out the first row of each file that is read."""
        return self._set(skips_first_row=skip)

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        """Refuse a file whose header does not name the columns in their order."""
        return self._set(strict_headers=strict)

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        """Write a header into each file, and expect one in each that is read."""
        return self._set(uses_header=use)

    def size(self) -> int:
        """Return the number of columns so far."""
        return len(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def _add(self, column: CsvColumn) -> CsvSchemaBuilder:
        if any(column.name == known.name for known in self._columns):
            raise ValueError(f"column {column.name!r} is in the CSV schema twice")
        self._columns.append(column)
        return self

    def _set(self, **changed: object) -> CsvSchemaBuilder:
        self._form = replace(self._form, **changed)
        return self


_ADVICE: Final = f"give one of {', '.join(sorted(ELEMENTS))}, such as DataTypes.INT() or Types.INT()"


def sign(what: str, given: Any, *others: str) -> str:
    """Return a sign that is one character or one of ``others``. Raises ValueError for another one."""
    if given not in others and (not isinstance(given, str) or len(given) != 1 or given in "\r\n\0"):
        raise ValueError(f"{what} {given!r} must be one character, and no end of a line")
    return str(given)
