"""Writes ``engine/table/functions.json``: Flink's functions, which of them the engine has, what tests them.

``python -m tests.conformance.record_functions`` keeps the names that are in the file, which are those of
Flink 2.3 (``BuiltInFunctionDefinitions`` and ``FlinkSqlOperatorTable``, as SQL names them), adds what the
engine registers, and looks for a vector whose plan calls each. The planner rewrites some functions into
others: ``REWRITTEN`` says into which. With ``page FILE`` it writes the page of the documentation instead.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from onceproof.engine.table.aggregates.registry import load_aggregates
from onceproof.engine.table.expressions.registry import load_functions
from tests.conformance.sql_vectors import (
    DEFAULT_SQL_VECTORS,
    digest_of,
    read_plans,
    read_sql_vectors,
    request_of,
)

TABLE: Final = Path(__file__).parents[2] / "engine" / "table" / "functions.json"
_PARTS: Final = ("YEAR", "QUARTER", "MONTH", "WEEK", "HOUR", "MINUTE", "SECOND")
_DAYS: Final = ("DAYOFYEAR", "DAYOFMONTH", "DAYOFWEEK")
REWRITTEN: Final = {
    **dict.fromkeys((*_PARTS, *_DAYS), "EXTRACT"),
    "BETWEEN": "SEARCH",
    "BETWEEN SYMMETRIC": "<=",
    "NULLIF": "CASE",
    "TIMESTAMPADD": "+",
    "CEILING": "CEIL",
    "GROUPING": "CASE",
    "GROUPING_ID": "CASE",
    "DATEDIFF": "TIMESTAMPDIFF",
    **dict.fromkeys(("STDDEV_POP", "STDDEV_SAMP", "VAR_POP", "VAR_SAMP"), "$WELFORD_M2$1"),
}


def supported(name: str) -> bool:
    """Return whether the engine has a function or aggregate of a name in SQL."""
    internal = f"${REWRITTEN.get(name, name)}$1"
    return internal in load_functions() or internal in load_aggregates()


def called(value: Any) -> Iterator[str]:
    """Iterate over the internal names of the functions that a part of a plan calls."""
    if isinstance(value, dict):
        if "internalName" in value:
            yield value["internalName"]
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from called(each)


def first_vectors() -> dict[str, str]:
    """Return for each function the first vector whose plan calls it."""
    plans = read_plans()
    found: dict[str, str] = {}
    for vector in read_sql_vectors(DEFAULT_SQL_VECTORS):
        answer = plans.get(digest_of(request_of(vector)), {})
        for name in called(answer.get("plan", {})):
            found.setdefault(name, vector.id)
    return found


def made(names: set[str]) -> dict[str, dict[str, Any]]:
    """Return the table of these names and of all that the engine registers."""
    registered = {name[1:-2] for name in (*load_functions(), *load_aggregates()) if name.endswith("$1")}
    vectors = first_vectors()
    return {
        name: {"supported": supported(name), "vector": vectors.get(f"${REWRITTEN.get(name, name)}$1")}
        for name in sorted(names | registered)
    }


def page() -> str:
    """Return the table as a page, with Flink's functions only."""
    table: dict[str, dict[str, Any]] = json.loads(TABLE.read_text(encoding="utf-8"))
    rows = {name: entry for name, entry in table.items() if not name.startswith("$")}
    has = sum(entry["supported"] for entry in rows.values())
    lines = [
        "# Functions of SQL",
        "",
        f"The engine has {has} of {len(rows)} functions and operators of Flink 2.3. A statement that calls"
        " another one is refused before the job starts. A test is a case recorded on Flink, which the engine"
        " repeats.",
        "",
        "| function | here | test |",
        "| --- | --- | --- |",
    ]
    for name, entry in rows.items():
        shown = name.replace("|", "\\|")
        lines.append(f"| `{shown}` | {'yes' if entry['supported'] else 'no'} | {entry['vector'] or ''} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Write the file, or the page."""
    if sys.argv[1:2] == ["page"]:
        Path(sys.argv[2]).write_text(page(), encoding="utf-8")
        return
    names = set(json.loads(TABLE.read_text(encoding="utf-8"))) if TABLE.exists() else set()
    lines = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in made(names).items()]
    separator = ",\n"
    TABLE.write_text(f"{{\n{separator.join(lines)}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
