"""The program of a worker process: it runs the scenarios of each batch and answers with their outcomes.

The rules this module lives by:

- Stdout carries messages only. What a family prints goes to stderr, so it cannot damage a message.
- An error ends the batch at its scenario. The answer holds the outcomes before it, and the error.
- The worker exits at the end of its stdin, or, if it is busy, when its parent process has exited.
- It notes each scenario before it begins, for the parent that outlives it. A scenario that ended an earlier
  worker is not run again: its outcome says how.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from time import perf_counter, sleep, time
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from onceproof.harness.checkers.outcome import Outcome, to_line
from onceproof.harness.checkers.protocol_states import protocol_states_of
from onceproof.harness.generation.generator import UNAIMED, USUAL, Drawing
from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import History
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.model.seeds import numbered
from onceproof.harness.model.system import Controlled, System, find_system, let_go
from onceproof.harness.systems.simulation.stopping import seconds_for_each
from onceproof.harness.trials.evidence import evidence_folder, keep_evidence, sentence_of_outcome
from onceproof.harness.trials.pool import (
    Batch,
    Done,
    FamilyToLoad,
    Start,
    error_of,
    read_message,
    write_message,
)
from onceproof.harness.trials.supervision import (
    Lost,
    Notes,
    end_out_of_memory,
    is_lost,
    is_out_of_memory,
    lost_outcome,
    stack_of,
    without_records,
)
from onceproof.harness.trials.trial import StoppedInGenerate, run_scenario, scenario_of

_PARENT_POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class LoadedRun:
    """A run in a process that runs its scenarios."""

    start: Start
    families: Sequence[Family]
    system: System

    def run_batch(self, batch: Batch, notes: Notes | None = None) -> Done:
        """Run the scenarios of a batch, up to the first error.

        Args:
            batch: one of the run.
            notes: where each scenario is noted before it begins; None: no other process watches this one.
        """
        started = perf_counter()
        lines: list[bytes] = []
        states: list[tuple[int, ...]] = []
        errors = ("", "")
        try:
            for tried in tried_scenarios(self._drawn(batch), batch, self.system, notes):
                lines.append(to_line(tried.outcome))
                if not tried.outcome.passed and tried.history.record is not None and self.start.out:
                    self._keep(tried)
                if self.start.watches:
                    states.append(tuple(sorted(protocol_states_of(tried.history))))
        except Exception as error:
            errors = error_of(error, batch)
        seconds = perf_counter() - started
        return Done(batch.first, tuple(lines), seconds, *errors, batch.place, tuple(states), batch.unaimed)

    def _keep(self, tried: Tried) -> None:
        """Keep the evidence of the first failure of a signature."""
        outcome = tried.outcome
        family = next(each for each in self.families if each.name == outcome.family)
        assert outcome.signature is not None, "a scenario that fails has one"
        folder = evidence_folder(Path(self.start.out), family.name, outcome.signature)
        if not folder.exists():
            sentence = sentence_of_outcome(outcome)
            keep_evidence(
                folder, self.system, family, tried.scenario, tried.history, outcome.signature, sentence
            )

    def _drawn(self, batch: Batch) -> Iterator[tuple[Family, int, Drawing]]:
        """Yield family, seed and drawing of the scenarios of a batch."""
        seed, share, turns = self.start.seed, self.start.share, self.start.turns
        if batch.place is None:
            names = [family.name for family in self.families]
            for place, drawn in numbered(seed, names, batch.first, batch.count, share, turns):
                yield self.families[place], drawn, USUAL
            return
        family = self.families[batch.place]
        name, drawing = (unaimed_name(family), UNAIMED) if batch.unaimed else (family.name, USUAL)
        own = turns[batch.place : batch.place + 1]
        for _, drawn in numbered(seed, [name], batch.first, batch.count, share, own):
            yield family, drawn, drawing


class Tried(NamedTuple):
    """A scenario that was run, or that ended its process and has no more than an outcome."""

    scenario: Scenario
    outcome: Outcome
    history: History


def tried_scenarios(
    drawn: Iterable[tuple[Family, int, Drawing]], batch: Batch, system: System, notes: Notes | None
) -> Iterator[Tried]:
    """Run the scenarios of some seeds, which are those of a batch, and yield what came of each."""
    if notes is not None:
        notes.begin_batch()
    lost_by_place = {lost.place: lost for lost in batch.lost}
    for place, (family, seed, drawing) in enumerate(drawn):
        if batch.until is not None and time() >= batch.until:
            return
        lost = lost_by_place.get(place)
        is_generated = False
        if lost is None:
            try:
                if notes is not None:
                    notes.begin(place)
                scenario = scenario_of(family, seed, drawing)
                is_generated = True
                if notes is not None:
                    notes.generated(place)
                tried = Tried(scenario, *run_scenario(family, scenario, system))
                if notes is not None:
                    notes.idle()
                if is_lost(tried.outcome):
                    tried = tried._replace(scenario=without_records(family, seed))
                yield tried
                continue
            except StoppedInGenerate as stopped:
                lost = replace(stopped.lost, place=place)
                if notes is not None:
                    notes.idle()
            except Exception as error:
                if notes is not None and is_out_of_memory(error):
                    end_out_of_memory()
                raise
            except BaseException as error:
                if notes is None:
                    # The user's interrupt, too, comes here only where no other process watches.
                    raise
                notes.idle()
                lost = Lost(place, f"raised {type(error).__name__}", is_generated, stack_of(error))
        yield Tried(without_records(family, seed), lost_outcome(family, seed, lost), History())


def unaimed_name(family: Family) -> str:
    """Return the name from which the seeds of a family's scenarios without patterns follow."""
    return f"{family.name} unaimed"


Answer: TypeAlias = Callable[[Batch, Notes], Done]
"""Runs a batch."""


def serve(prepare: Callable[[Start], Answer], learn: Callable[[FamilyToLoad], None] | None = None) -> None:
    """Answer the parent's batches until it closes the stream, and end this process.

    Args:
        prepare: called once, with the parent's first message.
        learn: called with each family of which the parent tells later.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_exit_with_parent, args=(os.getppid(),), daemon=True).start()
    messages = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    start = read_message(sys.stdin.buffer)
    if not isinstance(start, Start):
        return
    # A system of real processes has limits of its own.
    seconds = None if start.budget is None else start.budget.seconds
    with seconds_for_each(seconds), suppress(BrokenPipeError):
        answer = prepare(start)
        notes = Notes(int(sys.argv[1]), int(sys.argv[2]), start.budget)
        # Modules stay loaded, so the garbage collector need not traverse them again.
        gc.freeze()
        while (message := read_message(sys.stdin.buffer)) is not None:
            if isinstance(message, Batch):
                done = answer(message, notes)
                notes.idle()
                write_message(messages, done)
            elif isinstance(message, FamilyToLoad) and learn is not None:
                learn(message)


def main() -> None:
    """Run the scenarios of a run, or the checks of a family."""
    with ExitStack() as stack:

        def prepare(start: Start) -> Answer:
            run = LoadedRun(start, [load_family(name) for name in start.families], find_system(start.system))
            stack.enter_context(let_go(run.system))
            if isinstance(run.system, Controlled):
                run.system.measured.update(start.measured)
            if (parallelisms := start.checks) is not None:
                from onceproof.harness.trials.supervised_checks import check_batch

                return lambda batch, notes: check_batch(
                    run.families[0], start.seed, batch, parallelisms, notes
                )
            return run.run_batch

        serve(prepare)
    # Threads or exit handlers of a family must not delay the parent.
    os._exit(0)


def _exit_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        sleep(_PARENT_POLL_SECONDS)
    os._exit(1)
