"""Queries of Nexmark as scripts of SQL, on our local runtime and on Flink, over the same files.

The rules this module lives by:

- Events come from the public generator. Each has a time of its own, so the last bid of q18 is one. They are
  lines of JSON, and changes are written as debezium-json, since q18 replaces rows.
- Each run is a process of its own, with two subtasks and a checkpoint every second.
- Both engines must leave the same rows, and some, before a figure is given.
- Processor time is compared, that of Java included, without its start; the time on the wall stands beside it.
  Engines take turns, round by round. The best round counts, since other work on the machine only adds.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, Final

from onceproof.engine.runtime.java import find_java
from onceproof.harness.reporting.report_builder import machine_text
from onceproof.harness.systems.flink.home import PACKAGES as FLINK
from onceproof.harness.systems.flink.sql_script import statements_of
from onceproof.harness.systems.kit.packages import python_with
from onceproof.scenarios.nexmark._generator import Auction, Event, Person, Settings, events
from tests.benchmarks.local import WrongCount
from tests.benchmarks.measurement import Measurement
from tests.benchmarks.peers import HERE, ROOT, Seconds, seconds_of
from tests.benchmarks.sql_engine import PARALLELISM, files

EVENTS: Final = 100_000
ROUNDS: Final = 2
QUERIES: Final = ("q1", "q5", "q7", "q8", "q18")
OURS: Final = "local"
PEER: Final = "flink"
ENGINES: Final = (OURS, PEER)
SCRIPTS: Final = ROOT / "scenarios" / "nexmark_sql"
_WITH: Final = re.compile(r"WITH \('connector' = '(nexmark|blackhole)'\)")
_MILLISECONDS: Final = "milliseconds"


def measure(
    count: int = EVENTS,
    queries: Sequence[str] = QUERIES,
    rounds: int = ROUNDS,
    engines: Sequence[str] = ENGINES,
) -> Measurement:
    """Return the events a second of each query on our engine and on Flink, and ours beside Flink's."""
    if PEER in engines:
        find_java(os.environ)
    found = Measurement("sql", {"events": count}, {}, {}, machine_text())
    with tempfile.TemporaryDirectory(prefix="onceproof-bench-") as given:
        write_events(count, Path(given))
        for query in queries:
            taken: dict[str, list[Seconds]] = {name: [] for name in engines}
            rows: dict[str, Counter[str]] = {}
            for _ in range(rounds):
                for name in engines:
                    with tempfile.TemporaryDirectory(prefix="onceproof-bench-") as folder:
                        taken[name].append(run(name, query, given, Path(folder)))
                        rows[name] = rows_left(Path(folder, "output"))
                check_rows(query, rows)
            _enter(found, query, count, taken)
    return found


def write_events(count: int, folder: Path) -> None:
    """Write events as rows of the table of the scripts, dealt out to a file for each subtask."""
    drawn = events(Settings(delayed_share=0.0, events_per_second=1000.0), count, Random(1))
    lines = [json.dumps(row_of(time, event)) for time, event in drawn]
    for place in range(PARALLELISM):
        own = "".join([f"{line}\n" for line in lines[place::PARALLELISM]])
        Path(folder, f"events-{place}.json").write_text(own)


def row_of(time: int, event: Event) -> dict[str, Any]:
    """Return an event as a row of the scripts' table."""
    cells = {**event._asdict(), "dateTime": _text(time), "extra": f"event {time}"}
    kind, number = ("person", 0) if isinstance(event, Person) else ("bid", 2)
    if isinstance(event, Auction):
        kind, number = "auction", 1
        cells |= {"initialBid": event.initial_bid, "expires": _text(event.expires)}
    return {"event_type": number, "person": None, "auction": None, "bid": None, kind: cells}


def _text(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).replace(tzinfo=None).isoformat(" ", _MILLISECONDS)


def run(engine: str, query: str, given: str, folder: Path) -> Seconds:
    """Run a query on an engine. Raises WrongCount where it fails."""
    script, output, state = SCRIPTS / f"{query}.sql", folder / "output", str(folder / "state")
    environment = None
    if engine == OURS:
        words = [sys.executable, "-m", "tests.benchmarks.sql_engine", str(script), given, str(output), state]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    else:
        statements = folder / "statements.json"
        statements.write_text(json.dumps(statements_of(_with_files(script.read_text(), given, output))))
        words = [str(python_with(FLINK)), str(HERE / "sql_flink_peer.py"), str(statements), state]
    return seconds_of(words, folder, environment, f"{engine}, {query}")


def _with_files(script: str, given: str, output: Path) -> str:
    """Return a script that reads and writes files."""
    ends = {"nexmark": files(given, "json"), "blackhole": files(str(output), "debezium-json")}

    def options(match: re.Match[str]) -> str:
        pairs = [f"'{key}' = '{value}'" for key, value in ends[match[1]].items()]
        return f"WITH ({', '.join(pairs)})"

    return _WITH.sub(options, script)


def rows_left(output: Path) -> Counter[str]:
    """Return the rows that the changes in files of debezium-json leave."""
    rows: Counter[str] = Counter()
    for part in output.rglob("*"):
        if not part.is_file() or part.name.startswith("."):
            continue
        for line in part.read_text().splitlines():
            # Numbers are compared by value: Java writes some with an exponent.
            change = json.loads(line, parse_int=Decimal, parse_float=Decimal)
            for side, sign in (("before", -1), ("after", 1)):
                if change[side] is not None:
                    rows[json.dumps(change[side], sort_keys=True, default=_number)] += sign
    return Counter({row: number for row, number in rows.items() if number})


def _number(value: Decimal) -> str:
    return f"{value.normalize():f}"


def check_rows(query: str, rows: dict[str, Counter[str]]) -> None:
    """Raise WrongCount unless all engines have left the same rows, and some."""
    (first, expected), *others = rows.items()
    if not expected:
        raise WrongCount(f"{query}: {first} has left no row")
    for name, own in others:
        if differing := (own - expected) + (expected - own):
            raise WrongCount(
                f"{query}: {differing.total():,} rows differ between {first} and {name},"
                f" {next(iter(differing))} for one"
            )


def _enter(found: Measurement, query: str, count: int, taken: dict[str, list[Seconds]]) -> None:
    """Enter the best round of each engine, and ours beside Flink's."""
    for kind, suffix in (("cpu", ""), ("wall", "_wall")):
        best = {name: min(getattr(each, kind) for each in rounds) for name, rounds in taken.items()}
        for name, seconds in best.items():
            place = found.figures if name == OURS else found.floors
            place[f"{query}_{name}{suffix}_events_per_second"] = round(count / seconds)
            place[f"{query}_{name}{suffix}_seconds"] = round(seconds, 2)
        if len(best) > 1:
            found.ratios[f"{query}_{OURS}_to_{PEER}{suffix}"] = round(best[PEER] / best[OURS], 2)
