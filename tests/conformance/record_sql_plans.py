"""Has Flink's planner plan the vectors of SQL and keeps what it answers.

``python -m tests.conformance.record_sql_plans [--refused] [FILE ...]`` writes ``sql_plans.json.gz``, the
same bytes for the same answers; with ``--refused`` it keeps the plans that are there. It needs the Flink of
``onceproof flink install``, and takes some minutes.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from onceproof.engine.table.planner.planner_process import Planner, PlanRequest, renumbered
from onceproof.harness.systems.flink.home import VERSION
from onceproof.harness.systems.flink.planner import find_planner
from tests.conformance.sql_programs import answering, difference_of_program, is_of_streams
from tests.conformance.sql_vectors import (
    DEFAULT_SQL_VECTORS,
    PLANS,
    asked,
    digest_of,
    read_plans,
    read_sql_vectors,
    request_of,
)

REDUNDANT: Final = frozenset({"description", "damBehavior", "priority", "file-path"})
"""What no reader of a plan looks at (descriptions are half of its size), and paths that differ each time."""


def without_redundancy(value: Any) -> Any:
    """Leave out what is never read."""
    if isinstance(value, dict):
        return {key: without_redundancy(item) for key, item in value.items() if key not in REDUNDANT}
    return [without_redundancy(item) for item in value] if isinstance(value, list) else value


def main(paths: list[Path], kept: dict[str, Any]) -> None:
    """Plan the vectors of some files except the kept ones, and write the answers."""
    vectors = [vector for path in paths for vector in read_sql_vectors(path)]
    answers: dict[str, Any] = {}
    with Planner(find_planner()) as planner:

        def answer(request: PlanRequest) -> Any:
            digest = digest_of(request)
            answers[digest] = without_redundancy(kept.get(digest) or asked(planner, request))
            return answers[digest]

        for number, vector in enumerate(vectors):
            answer(request_of(vector))
            if is_of_streams(vector):
                difference_of_program(vector, answering(answer))
            if number % 50 == 49:
                print(f"{number + 1} of {len(vectors)}", file=sys.stderr, flush=True)
    content = {"flink": VERSION, "answers": answers}
    PLANS.write_bytes(gzip.compress(msgspec.json.encode(content, order="deterministic"), mtime=0))


if __name__ == "__main__":
    arguments = sys.argv[1:]
    planned = {}
    if "--refused" in arguments:
        arguments.remove("--refused")
        planned = {
            digest: {**answer, "plan": renumbered(answer["plan"])} if "plan" in answer else answer
            for digest, answer in read_plans().items()
            if "error" not in answer
        }
    main([Path(argument) for argument in arguments] or [DEFAULT_SQL_VECTORS], planned)
