"""`onceproof families`, `faults` and `bench`: print tables, or with --json one document.

The rules this module lives by:

- A table is plain text in columns with one line per item, so that `grep` and `cut` work on it. Long
  measurements print each line as soon as its numbers are known.
- The JSON documents have fixed fields and the same numbers as the tables.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from onceproof.harness.model.exit_codes import NOTHING_RAN, PASSED, UsageError
from onceproof.harness.model.family_places import family_names, load_family
from onceproof.reports.text import number


def families_command(as_json: bool) -> int:
    """Print the built-in families with their tasks and schemas."""
    families = [load_family(name) for name in family_names()]
    if as_json:
        _print_json(
            [
                {
                    "name": family.name,
                    "generator_version": family.generator_version,
                    "summary": _summary(family),
                    "tasks": dict(family.tasks),
                    "record_schema": family.record_schema,
                    "row_schema": family.row_schema,
                }
                for family in families
            ]
        )
        return PASSED
    width = max(len(family.name) for family in families)
    for family in families:
        print(f"{family.name:<{width}}  {_summary(family)}")
        print(f"{'':<{width}}  tasks {', '.join(family.tasks)}; rows {family.row_schema}")
    return PASSED


def faults_command(systems: Sequence[str], as_json: bool) -> int:
    """Print the fault table with the answer of each named system, or of all systems, to each row."""
    from onceproof.harness.model.fault_answers import CarriedOut
    from onceproof.harness.model.faults import FAULTS
    from onceproof.harness.model.system import answers_of
    from onceproof.harness.model.system_homes import system_names

    answers = {name: answers_of(name) for name in systems or system_names()}
    if as_json:
        _print_json(
            [
                {
                    "kind": kind,
                    "strikes": row.strikes,
                    "verb": row.verb,
                    "points": row.points,
                    "systems": {
                        name: {
                            "carried_out": isinstance(answer := of_system[kind], CarriedOut),
                            "points": answer.points if isinstance(answer, CarriedOut) else (),
                            "answer": str(answer),
                        }
                        for name, of_system in answers.items()
                    },
                }
                for kind, row in FAULTS.items()
            ]
        )
        return PASSED
    width = max(map(len, answers))
    for kind, row in FAULTS.items():
        print(f"{kind}  at {', '.join(row.points)}")
        for name, of_system in answers.items():
            answer = of_system[kind]
            print(f"  {name:<{width}}  {'yes' if isinstance(answer, CarriedOut) else 'no ':<3}  {answer}")
    return PASSED


def bench_command(names: Sequence[str], as_json: bool, large: bool = False) -> int:
    """Run the named benchmarks, or all; ``large`` also runs the parts that take minutes.

    Raises UsageError if ``large`` is given and none of the benchmarks has a large part.
    """
    from onceproof.harness.benchmarks.measurement import BENCHMARKS, has_large_part, load_benchmark

    benchmarks = [load_benchmark(name) for name in names or BENCHMARKS]
    if large and not any(map(has_large_part, benchmarks)):
        raise UsageError(f"--large: {', '.join(names)} has no large part: omit the option")
    measurements = []
    for benchmark in benchmarks:
        options = {"large": True} if large and has_large_part(benchmark) else {}
        measurement = msgspec.to_builtins(benchmark(**options))
        measurements.append(measurement)
        if not as_json:
            _print_measurement(measurement)
    if as_json:
        _print_json(measurements[0] if len(names) == 1 else measurements)
    return PASSED if measurements else NOTHING_RAN


def _print_measurement(measurement: dict[str, Any]) -> None:
    print(f"{measurement['name']} ({measurement['machine']})")
    for kind in ("figures", "floors", "ratios"):
        for metric, value in measurement[kind].items():
            print(f"  {kind[:-1]:<6}  {metric:<40}  {number(value):>14}")
    sys.stdout.flush()


def _summary(family: Any) -> str:
    """Return the first sentence of the family's own description."""
    text = " ".join((family.__doc__ or "").split())
    return text.partition(". ")[0].rstrip(".")


def _print_json(document: Any) -> None:
    print(msgspec.json.encode(document).decode())
