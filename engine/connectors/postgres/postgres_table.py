"""A table of a PostgreSQL database: its quoted names, its statements, and the check of its columns.

The rules this module lives by:

- Names of schemas, tables and columns are quoted, so any name is possible and none is SQL. Values are never
  part of a statement: COPY and parameters carry them.
- The table is checked before the first row: that it exists, has the columns, and takes rows of this user.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from onceproof.engine.connectors.jdbc.jdbc_options import JdbcConnectionOptions
from onceproof.engine.connectors.jdbc.two_phase_database import RefusedByDatabase
from onceproof.engine.connectors.sqlite import is_utf8

if TYPE_CHECKING:
    from onceproof.engine.connectors.postgres.timed_connection import TimedConnection

LONGEST_NAME: Final = 63
"""The bytes of a name that PostgreSQL keeps; it would cut a longer one."""
LONGEST_SHOWN: Final = 200
_TRIES: Final = 3
"""Of several sessions that create a table at once, PostgreSQL refuses some, which then find it."""
_ROW_TYPES: Final = frozenset({tuple, list})

_COLUMNS: Final = """
SELECT attname, atttypid::regtype::text FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_RIGHT: Final = "SELECT has_table_privilege(to_regclass(%s)::oid, %s)"
_UNIQUE: Final = """
SELECT array_agg(attname::text) FROM pg_index
JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey)
WHERE indrelid = to_regclass(%s) AND indisunique AND indpred IS NULL AND indexprs IS NULL GROUP BY indexrelid
"""


class PostgresTable:
    """One table, with the columns that a sink writes or a source reads.

    Args:
        options: where the database is.
        table: the name of the table, as it is; a dot in it is a part of the name.
        columns: the names of the columns, in the order of the rows.
        schema: the name of the schema; "": the first in the user's search path that has the table.
        use: what uses the table, for messages: "sink into" or "source of".

    Raises:
        ValueError: a name is not possible, or a column is named twice.
    """

    def __init__(
        self, options: JdbcConnectionOptions, table: str, columns: Sequence[str], schema: str, use: str
    ) -> None:
        if not columns:
            raise ValueError(f"table {table!r}: name at least one column")
        if len(set(columns)) < len(columns):
            raise ValueError(f"columns {', '.join(columns)}: a name stands there twice")
        self.options = options
        self.columns = tuple(columns)
        self.name = name_in(schema, table)
        self.list = ", ".join(map(quoted_name, columns))
        """The quoted columns."""
        self.place = f"{use} table {table!r} of {options.place}"

    def check(self, connection: TimedConnection, right: str) -> dict[str, str]:
        """Return the types of the table's columns by name.

        Args:
            connection: a connection to the database.
            right: what this user must be allowed to do, such as INSERT.

        Raises:
            RefusedByDatabase: the table or a column is missing, or the right is.
        """
        types = dict(connection.execute(_COLUMNS, (self.name,)).fetchall())
        if not types:
            raise RefusedByDatabase(
                f"{self.place}: there is no such table: create it, or give the name of another one"
            )
        for column in self.columns:
            if column not in types:
                raise RefusedByDatabase(
                    f"{self.place}: the table has no column {column!r}, but {', '.join(types)}:"
                    " give the columns of this table, or another table"
                )
        [(is_allowed,)] = connection.execute(_RIGHT, (self.name, right)).fetchall()
        if not is_allowed:
            raise RefusedByDatabase(
                f"{self.place}: the user has no right to {right}: grant it, or give another user"
            )
        return types

    def check_unique(self, connection: TimedConnection, columns: Sequence[str]) -> None:
        """Raise RefusedByDatabase if no unique index or primary key covers exactly these columns."""
        indexes = connection.execute(_UNIQUE, (self.name,)).fetchall()
        if all(set(found) != set(columns) for (found,) in indexes):
            raise RefusedByDatabase(
                f"{self.place}: the table has no primary key or unique index over {', '.join(columns)}:"
                " create one, or give other key columns"
            )

    def check_row(self, row: Any) -> None:
        """Raise RefusedByDatabase for a value that is no tuple with one field for each column."""
        if not isinstance(row, tuple | list) or len(row) != len(self.columns):
            raise RefusedByDatabase(
                f"{self.place}: {shown(row)} is not a row: give tuples of {len(self.columns)} columns"
                f" ({', '.join(self.columns)})"
            )

    def check_rows(self, rows: Sequence[Any]) -> None:
        """Check several values; two passes in C take a tenth of the time that a call for each row takes."""
        if not (_ROW_TYPES.issuperset(map(type, rows)) and set(map(len, rows)) <= {len(self.columns)}):
            for row in rows:
                self.check_row(row)


def make_table(
    connection: TimedConnection, place: str, use: str, name: str, columns: str, rights: str
) -> None:
    """Create a table of our own beside the target if it is not there. Raises RefusedByDatabase.

    Args:
        connection: a connection to the database.
        place: the sink and its target, for messages.
        use: what the table is for the sink.
        name: its quoted name.
        columns: their definitions.
        rights: what a user needs who may not create it.
    """
    from psycopg import errors

    for _ in range(_TRIES):
        [(known,)] = connection.execute("SELECT to_regclass(%s)", (name,)).fetchall()
        if known is not None:
            return
        try:
            connection.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns})")
        except errors.UniqueViolation:
            continue
        except errors.InsufficientPrivilege as error:
            raise RefusedByDatabase(
                f"{place}: the {use} {name} is missing, and the user may not create it: let an administrator"
                f" run CREATE TABLE {name} ({columns}) and grant {rights}"
            ) from error


def quoted_name(name: str) -> str:
    """Return a name quoted for SQL. Raises ValueError for a name that PostgreSQL cannot have."""
    if "\0" in name or not name or not is_utf8(name) or len(name.encode()) > LONGEST_NAME:
        raise ValueError(
            f"{shown(name)} cannot be the name of a schema, table or column: give 1 to {LONGEST_NAME} bytes"
        )
    return '"' + name.replace('"', '""') + '"'


def name_in(schema: str, name: str) -> str:
    """Return the quoted name of a table, with its schema if that is not "". Raises ValueError."""
    return quoted_name(name) if not schema else f"{quoted_name(schema)}.{quoted_name(name)}"


def beside_parameters(sql: str) -> str:
    """Return names for a statement that has parameters, in which psycopg takes ``%`` for the sign of one."""
    return sql.replace("%", "%%")


def shown(value: Any) -> str:
    """Return a value for a message of one line."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:
        # Python refuses to print integers of thousands of digits.
        text = f"a {type(value).__name__}"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
