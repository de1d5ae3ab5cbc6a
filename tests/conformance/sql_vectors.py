"""Reads recorded facts about Flink's SQL: tables, a statement, and the changelog that came of it.

The ``meta`` of ``sql_vectors.json`` explains every field. A vector is planned from the request that
``request_of`` makes; what the planner answers is kept in ``sql_plans.json.gz`` under a digest of that
request, so that neither Flink nor Java is needed to run it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from onceproof.engine.table.planner.planner_process import Planner, PlanningFailed, PlanRequest

HERE: Final = Path(__file__).parent
DEFAULT_SQL_VECTORS: Final = HERE / "sql_vectors.json"
PLANS: Final = HERE / "sql_plans.json.gz"
COLUMN: Final = re.compile(r"(`[^`]+`|\S+)\s+(.*)", re.DOTALL)


@dataclass(frozen=True)
class SqlVector:
    """One recorded statement."""

    id: str
    area: str
    content: Mapping[str, Any]

    @property
    def suspect(self) -> bool:
        """Whether the recording looks like a defect of Flink, so that it does not count."""
        return "suspect" in self.content

    @property
    def tables(self) -> Mapping[str, Any]:
        """The declared tables, by name."""
        tables: Mapping[str, Any] = self.content.get("tables", {})
        return tables


def read_sql_vectors(path: Path) -> list[SqlVector]:
    """Read a file of vectors. Raises ValueError for an id that occurs twice."""
    vectors = {}
    for content in json.loads(path.read_text(encoding="utf-8"))["vectors"]:
        if content["id"] in vectors:
            raise ValueError(f"{path}: the id {content['id']!r} occurs twice")
        vectors[content["id"]] = SqlVector(content["id"], content["area"], content)
    return list(vectors.values())


def request_of(vector: SqlVector) -> PlanRequest:
    """Return what the planner is asked for a vector."""
    content = vector.content
    ddl = [*(declaration(name, table) for name, table in vector.tables.items()), *content.get("ddl", ())]
    options = content.get("conf", {})
    if content["mode"] == "table_api":
        return PlanRequest(ddl, options, program=content["python"])
    if "statement_set" in content:
        return PlanRequest(ddl, options, statements=content["statement_set"])
    return PlanRequest(ddl, options, statement=content["query"])


def declaration(name: str, table: Mapping[str, Any]) -> str:
    """Return the statement that declares a table of a vector."""
    parts = []
    for column in table["schema"]:
        match = COLUMN.fullmatch(column)
        assert match is not None, column
        parts.append(f"{_quoted(match[1])} {match[2]}")
    if "watermark" in table:
        column, expression = table["watermark"]
        parts.append(f"WATERMARK FOR {_quoted(column)} AS {expression}")
    if "primary_key" in table:
        parts.append(f"PRIMARY KEY ({', '.join(map(_quoted, table['primary_key']))}) NOT ENFORCED")
    mode = table.get("mode", "append")
    return f"CREATE TABLE {_quoted(name)} ({', '.join(parts)}) WITH ('connector' = 'vec', 'mode' = '{mode}')"


def _quoted(name: str) -> str:
    return name if name.startswith("`") else f"`{name}`"


def digest_of(request: PlanRequest) -> str:
    """Return the key of a request in the file of plans."""
    return hashlib.sha256(msgspec.json.encode(request, order="deterministic")).hexdigest()[:16]


def read_plans(path: Path = PLANS) -> dict[str, Any]:
    """Read the answers of the planner, by digest."""
    answers: dict[str, Any] = msgspec.json.decode(gzip.decompress(path.read_bytes()))["answers"]
    return answers


def asked(planner: Planner, request: PlanRequest) -> dict[str, Any]:
    """Return the planner's answer, with ``error`` where it refuses."""
    try:
        return planner.plan(request)
    except PlanningFailed as failure:
        schema = {} if failure.schema is None else {"schema": failure.schema}
        return {"error": failure.error, **schema}
