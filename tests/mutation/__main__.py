"""Tries edits of the engine that are drawn at random: ``python -m tests.mutation [--edits N] [--seed S]``.

It prints what became of each, then the share that was caught, by package. A survivor without a verdict in
``survivors.toml`` is named at the end: find out by hand whether it changes anything.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import islice
from typing import Any

from onceproof.harness.trials.runner import usable_processors
from tests.mutation.grammar import core_edits, draw
from tests.mutation.record import SAMPLE, table, verdict_on, verdicts
from tests.mutation.trials import ROOT, Outcome, try_all


def parser() -> argparse.ArgumentParser:
    """Return what knows the options."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--edits", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0, help="of the edits, and of the scenarios")
    parser.add_argument("--scenarios", type=int, default=500, help="the most for each edit")
    parser.add_argument("--workers", type=int, default=usable_processors())
    parser.add_argument("--record", action="store_true", help=f"write {SAMPLE.name}")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    options = parser().parse_args(arguments)
    known = verdicts()
    lines: list[dict[str, Any]] = []
    edits = list(islice(draw(core_edits(ROOT), options.seed), options.edits))
    for edit, outcome in try_all(edits, options.seed, options.scenarios, options.workers):
        lines.append(outcome.line(edit))
        print(f"{edit.path}: {edit.function}: {edit.kind}: {edit.before} -> {edit.after}")
        print(f"  {_text(outcome, verdict_on(lines[-1], known))}", flush=True)
    if options.record:
        sample = {"seed": options.seed, "scenarios": options.scenarios, "edits": lines}
        SAMPLE.write_text(json.dumps(sample, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print("\n".join(table(lines, known)))
    open_ones = sum(not verdict_on(line, known) for line in lines)
    if open_ones:
        print(f"{open_ones} without a verdict: they are not counted")
    return 0


def _text(outcome: Outcome, verdict: str) -> str:
    if outcome.killed:
        return f"caught by {outcome.by} in scenario {outcome.scenarios}"
    return f"survived {outcome.scenarios} scenarios: {verdict or 'no verdict yet'}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
