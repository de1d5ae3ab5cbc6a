"""Sums by key, in files that a function of the user's replaces: a query of Structured Streaming."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from onceproof import Chance, FamilyOptions, Workload
from onceproof.harness.systems.structured.placeholder_job import job, tasks

if TYPE_CHECKING:
    from onceproof.harness.model.family import Declared, Records, Rows

__all__ = ["expected", "generate", "job", "options", "tasks", "versions"]

name = "replaced"
generator_version = 1
record_schema = "account STRING, cents BIGINT"
row_schema = "account STRING, total BIGINT"
oracle_sql = "SELECT scenario_id, account, sum(cents) AS total FROM records GROUP BY scenario_id, account"


def generate(random: Random) -> Workload:
    """Draw the postings of two accounts, each a split."""
    chance = Chance(random)
    accounts = ("ann", "bob")
    return Workload(
        {
            each: [(at, (each, chance.integer(1, 99))) for at in range(chance.integer(2, 6))]
            for each in accounts
        }
    )


def merged(folder: Path) -> Any:
    """Return a function that merges the totals of a batch into a file, which is replaced."""

    def store(totals: Any, batch_id: int) -> None:
        path, hidden = folder / "totals.jsonl", folder / ".totals.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        table = dict(json.loads(line) for line in lines)
        table.update((row.account, row.total) for row in totals.collect())
        hidden.write_text("".join(json.dumps(pair) + "\n" for pair in table.items()))
        hidden.replace(path)

    return store


def streaming_query(records: Any, io: Any) -> Any:
    """Add up the postings of each account."""
    totals = records.groupBy("account").agg({"cents": "sum"}).toDF("account", "total")
    return io.table(totals, 1, merged(io.output))


def versions(records: Records) -> Rows:
    """Return the running totals of each account."""
    rows: list[Any] = []
    for account, postings in records.items():
        total = 0
        for _, posting in postings:
            assert isinstance(posting, tuple)
            cents = posting[1]
            assert isinstance(cents, int)
            total += cents
            rows.append((account, total))
    return rows


def expected(records: Records, declared: Declared) -> Rows:
    """Return the total of each account."""
    return list(dict(versions(records)).items())  # type: ignore[arg-type]


options = FamilyOptions(table_keys=1, versions=versions, jobs={"structured_streaming": streaming_query})
