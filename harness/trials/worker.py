"""The inside of a worker process: run the scenarios of each batch that comes, and answer with their outcomes.

The rules this module lives by:

- Stdout belongs to the messages. What a family prints goes to stderr, so it can neither break a message nor
  pass for a result.
- A mistake ends the batch at the scenario that made it and is answered like any result: what came before it
  is kept.
- The worker looks after its own end: it stops at the end of its stdin, and if it is then busy for long, when
  its parent is gone.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from threading import Thread
from time import perf_counter, sleep
from typing import Any, Protocol

import msgspec

from onceproof.harness.checkers.outcome import to_line
from onceproof.harness.model.family import Family, FamilyError, load_family
from onceproof.harness.model.seeds import numbered
from onceproof.harness.model.system import System, find_system, let_go
from onceproof.harness.trials.pool import Batch, Done, Start, read_message, write_message
from onceproof.harness.trials.trial import run_scenario, scenario_of

_SECONDS_BETWEEN_LOOKS = 1.0


class RunsUnits(Protocol):
    """The part of an enumeration that a worker needs."""

    def run(self, number: int) -> Any:
        """Run the unit of a number, and give what can be told of it."""


def run_batch(families: Sequence[Family], seed: int, batch: Batch, system: System) -> Done:
    """Run the scenarios of a batch, up to the first mistake."""
    started = perf_counter()
    lines: list[bytes] = []
    family_error = internal_error = ""
    try:
        for place, scenario_seed in numbered(
            seed, [family.name for family in families], batch.first, batch.count
        ):
            family = families[place]
            outcome, _ = run_scenario(family, scenario_of(family, scenario_seed), system)
            lines.append(to_line(outcome))
    except FamilyError as error:
        family_error = str(error)
    except Exception:
        internal_error = traceback.format_exc()
    seconds = perf_counter() - started
    return Done(batch.first, tuple(lines), seconds, family_error, internal_error)


def enumerate_batch(units: RunsUnits, batch: Batch) -> Done:
    """Run the units of a batch, up to the first mistake."""
    started = perf_counter()
    lines: list[bytes] = []
    family_error = internal_error = ""
    try:
        for number in range(batch.first, batch.first + batch.count):
            lines.append(msgspec.json.encode(units.run(number)) + b"\n")
    except FamilyError as error:
        family_error = str(error)
    except Exception:
        internal_error = traceback.format_exc()
    return Done(batch.first, tuple(lines), perf_counter() - started, family_error, internal_error)


def main() -> None:
    """Serve the parent until it closes the stream."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    messages = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    start = read_message(sys.stdin.buffer)
    if not isinstance(start, Start):
        return
    families = [load_family(name) for name in start.families]
    system = find_system(start.system)
    units = None
    if start.enumerates:
        from onceproof.harness.trials.enumeration.units import Units

        units = Units(families)
    # What is loaded by now stays: the garbage collector need not look through it again and again.
    gc.freeze()
    with let_go(system):
        while isinstance(batch := read_message(sys.stdin.buffer), Batch):
            try:
                if units is None:
                    done = run_batch(families, start.seed, batch, system)
                else:
                    done = enumerate_batch(units, batch)
                write_message(messages, done)
            except BrokenPipeError:
                break
    # Whatever a family has left behind (threads, exit handlers) must not hold the parent up.
    os._exit(0)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        sleep(_SECONDS_BETWEEN_LOOKS)
    os._exit(1)
