"""Keeps the plans of ``scenarios/nexmark_sql``: ``python -m tests.scenarios.record_nexmark_plans``.

Plans that are kept already are taken as they are; Flink's planner is asked for the others.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Final

import msgspec

from onceproof.engine.table.planner.planner_process import Planner
from onceproof.harness.scripts.sql.plans import PLANS_OF_FOLDER, KeptPlan, digest_of, request_of
from onceproof.harness.scripts.sql.statements import read_statements
from onceproof.harness.systems.flink.home import VERSION
from onceproof.harness.systems.flink.planner import find_planner

SCRIPTS: Final = Path(__file__).parents[2] / "scenarios" / "nexmark_sql"


def main() -> None:
    """Write the plans of all scripts."""
    place = SCRIPTS / PLANS_OF_FOLDER
    before: list[KeptPlan] = []
    if place.exists():
        before = msgspec.json.decode(gzip.decompress(place.read_bytes()), type=list[KeptPlan])
    known = {each.digest: each for each in before}
    plans = []
    with Planner(find_planner()) as planner:
        for script in sorted(SCRIPTS.glob("*.sql")):
            statements = read_statements(script.read_text())
            digest = digest_of(statements)
            if digest not in known:
                plan = planner.plan(request_of(statements))["plan"]
                known[digest] = KeptPlan(digest, VERSION, plan)
            plans.append(known[digest])
    place.write_bytes(gzip.compress(msgspec.json.encode(plans), mtime=0))


if __name__ == "__main__":
    main()
