"""The content of a database of SQLite, which a user's sink has written."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

SQLITE: Final = b"SQLite format 3\0"
"""The first bytes of a database."""


def tables_in(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of each table, by its name."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    with closing(sqlite3.connect(path)) as database:
        names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        for (table,) in names.fetchall():
            quoted = table.replace('"', '""')
            found[table] = database.execute(f'SELECT * FROM "{quoted}"').fetchall()
    return found
