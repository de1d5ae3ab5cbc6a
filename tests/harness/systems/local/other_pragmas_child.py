"""A recorded process whose SQLite syncs less: ``python other_pragmas_child.py default=OFF SPEC``.

``default=MODE`` is how the library syncs by default, ``set=MODE`` how when the sink asks for full syncs.
"""

from __future__ import annotations

import sqlite3
import sys
from typing import Any

from tests.harness.systems.local.recorded_child import main


class OtherConnection(sqlite3.Connection):
    """A connection that syncs as the arguments of the program say."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if how == "default":
            super().execute(f"PRAGMA synchronous = {mode}")

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        """Execute a statement, but that of full syncs with the other mode."""
        if how == "set" and sql == "PRAGMA synchronous = FULL":
            sql = f"PRAGMA synchronous = {mode}"
        return super().execute(sql, *parameters)


if __name__ == "__main__":
    how, _, mode = sys.argv[1].partition("=")
    connect = sqlite3.connect
    sqlite3.connect = lambda *arguments, **options: connect(*arguments, factory=OtherConnection, **options)
    main(sys.argv[2])
