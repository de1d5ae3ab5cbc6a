"""Prints a vector of SQL with its plan, and what the engine makes of it.

``python -m tests.conformance.show_sql ID ...``
"""

from __future__ import annotations

import json
import sys

from onceproof.engine.table.plans import UnsupportedPlan
from tests.conformance.sql_compare import difference_of_run
from tests.conformance.sql_programs import functions_of
from tests.conformance.sql_run import run_vector
from tests.conformance.sql_vectors import (
    DEFAULT_SQL_VECTORS,
    digest_of,
    read_plans,
    read_sql_vectors,
    request_of,
)


def main(ids: list[str]) -> None:
    """Print the vectors with these ids."""
    plans = read_plans()
    for vector in read_sql_vectors(DEFAULT_SQL_VECTORS):
        if vector.id not in ids:
            continue
        answer = plans[digest_of(request_of(vector))]
        print(json.dumps({key: value for key, value in vector.content.items() if key != "result"}))
        for node in answer.get("plan", {}).get("nodes", ()):
            print(f"  {json.dumps(node)}")
        if "plan" not in answer:
            print(f"  {answer}")
            continue
        expected = vector.content["result"]
        for change in expected.get("changelog", ()):
            print(f"  expected {change.get('after')} {change['op']}{json.dumps(change['row'])}")
        try:
            run = run_vector(vector, answer["plan"], functions=functions_of(vector))
        except UnsupportedPlan as missing:
            print(f"  {missing}")
            continue
        for name, changes in run.changes.items():
            for step, kind, row in changes:
                print(f"  engine {name} {step} {kind}{json.dumps(row)}")
        difference = difference_of_run(expected, run, vector.content.get("sink_keys", {}))
        print(f"  {difference or 'as recorded'}")


if __name__ == "__main__":
    main(sys.argv[1:])
