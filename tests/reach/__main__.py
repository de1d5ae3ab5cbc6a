"""Checks what scenarios never run of the engine: ``python -m tests.reach [--scenarios N] [--findings]``.

It runs the scenarios of one seed under coverage.py in two processes, prints how much of each package ran, and
fails if the gaps differ from those in ``unreached.toml``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family import options_of
from onceproof.harness.model.family_places import family_names, load_family, turns_of
from onceproof.harness.model.seeds import WHOLE, numbered
from onceproof.scenarios.random_graphs._graph import graph_of
from onceproof.scenarios.random_graphs._panes import covered
from tests.reach.gaps import NEVER_RUNS, Reach, Share, read_reach
from tests.reach.listed import Group, differences, expanded, read_list

SEED: Final = 5
SCENARIOS: Final = 5000
PARTS: Final = 2
"""However many processors there are: what a process keeps from one scenario to the next shows in its data."""
ROOT: Final = Path(__file__).resolve().parents[2]
CORE: Final = ("task", "checkpoint", "state", "operators", "windows", "watermarks", "job")


class PartFailed(Exception):
    """A part of the run did not come to its end; it has printed why."""


def measured(scenarios: int = SCENARIOS) -> Reach:
    """Run the scenarios, and return what they reached."""
    with TemporaryDirectory() as folder:
        files = [Path(folder) / f"part-{first}" for first in range(PARTS)]
        environment = {**os.environ, "PYTHONHASHSEED": "0", "TMPDIR": folder}
        parts = [
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.reach.part"),
                    *(str(SEED), str(first), str(PARTS), str(scenarios), str(file)),
                ],
                cwd=ROOT,
                env=environment,
            )
            for first, file in enumerate(files)
        ]
        try:
            codes = [part.wait() for part in parts]
        finally:
            for part in parts:
                part.kill()
        if any(codes):
            raise PartFailed(f"a part of the run ended with {max(codes)}")
        return read_reach(files)


def share_lines(reach: Reach, groups: Sequence[Group]) -> Iterator[str]:
    """Yield a line for each package, for the core, and for what of it belongs in the simulation."""
    yield f"{'':15}  lines  branches  functions that run"
    core = _sum([reach.shares[each] for each in CORE])
    for package, share in (
        *reach.shares.items(),
        ("core", core),
        ("core, simulated", _within(core, reach, groups)),
    ):
        lines = 100 * share.lines_run / share.lines
        branches = 100 * share.branches_run / share.branches
        yield f"{package:15}  {lines:4.1f} %  {branches:4.1f} %  {share.functions_run} of {share.functions}"


def _within(core: Share, reach: Reach, groups: Sequence[Group]) -> Share:
    """Return the share of the core without the gaps that no simulated job can close."""
    without = [
        (gap, reach.gaps[gap])
        for group in groups
        if not group.reached_by
        for listed in group.gaps
        for gap in expanded(listed, reach)
        if gap in reach.gaps and gap.path.split("/")[0] in CORE
    ]
    return replace(
        core,
        lines=core.lines - sum(missing.lines for _, missing in without),
        branches=core.branches - sum(missing.branches for _, missing in without),
        functions=core.functions - sum(gap.what == NEVER_RUNS for gap, _ in without),
    )


def _sum(shares: Sequence[Share]) -> Share:
    fields = Share.__slots__
    return Share(**{each: sum(getattr(share, each) for share in shares) for each in fields})


def pairs_line(scenarios: int) -> str:
    """Return how many pairs of choices the windows of the random jobs among the scenarios have."""
    families = [load_family(name) for name in family_names()]
    names = [each.name for each in families]
    said: set[str] = set()
    jobs = 0
    for place, seed in numbered(SEED, names, 0, scenarios, WHOLE, turns_of(families)):
        if options_of(family := families[place]).draws_graphs:
            jobs += 1
            said |= {vertex.panes for vertex in graph_of(generate(family, seed).parameters).vertices}
    met, possible = covered(said - {""})
    return f"windows of {jobs} random jobs: {met} of {possible} pairs of choices"


def finding_lines(groups: Sequence[Group]) -> Iterator[str]:
    """Yield what should run and does not, with what would lead there."""
    for group in groups:
        if group.reached_by:
            yield f"{group.reason}\n  reached by: {group.reached_by}"
            yield from [f"  {gap.path}: {gap.function}: {gap.what}" for gap in group.gaps]


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.reach", description=__doc__)
    parser.add_argument("--scenarios", type=int, default=SCENARIOS, help="fewer show gaps that are none")
    parser.add_argument("--findings", action="store_true", help="only print what should run and does not")
    options = parser.parse_args(arguments)
    groups = read_list()
    if options.findings:
        print("\n".join(finding_lines(groups)))
        return 0
    reach = measured(options.scenarios)
    print("\n".join(share_lines(reach, groups)))
    print(pairs_line(options.scenarios))
    found = list(differences(groups, reach))
    for line in found:
        print(line)
    findings = sum(len(group.gaps) for group in groups if group.reached_by)
    print(f"{len(reach.gaps)} gaps, {findings} in findings (--findings), {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
