"""One scenario, run and judged. Runs, workers, campaigns and replays all call ``try_scenario``.

The rules this module lives by:

- ``try_scenario`` is the only way from a scenario to a verdict, so a replay agrees with the run.
- The seed decides which scenarios are run a second time for the property determinism, on which replays rely.
  A replay repeats the same ones. Only systems with the capability DETERMINISM are checked.
- The seed also decides which scenarios have their checkpoints restored and compared.
- A scenario that does not return in time, or ends its process, is stopped and has failed (stopping.py). On a
  system of real processes the system watches over its runs itself.
- An error in a family's own file is a FamilyError with its line; any other exception is an internal error,
  which carries the command that replays it.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Final

import msgspec

from onceproof.harness.checkers.determinism import check_determinism
from onceproof.harness.checkers.oracle import PythonOracle
from onceproof.harness.checkers.outcome import Outcome, outcome_of
from onceproof.harness.checkers.tolerance import within_tolerance
from onceproof.harness.checkers.verdict import Verdict, judge
from onceproof.harness.explanation.descriptions import replay_command
from onceproof.harness.generation.drawn_faults import writing_vertices
from onceproof.harness.generation.generator import USUAL, Drawing, generate, generator_version
from onceproof.harness.generation.outside_faults import with_outside_faults
from onceproof.harness.generation.program_faults import with_program_faults
from onceproof.harness.generation.server_faults import with_server_faults
from onceproof.harness.model.capabilities import Capability
from onceproof.harness.model.exit_codes import REPLAY_NOTE, is_full
from onceproof.harness.model.family import (
    Declared,
    Family,
    FamilyError,
    Rows,
    options_of,
    source_file,
    tasks_with,
)
from onceproof.harness.model.family_places import address_of, draws_chance
from onceproof.harness.model.faults import FAULTS
from onceproof.harness.model.history import (
    ROWS_FOUND,
    ROWS_WRITTEN,
    TRANSACTION_VISIBLE,
    History,
    rows_at_end,
)
from onceproof.harness.model.program_family import ProgramFamily
from onceproof.harness.model.scenario import Scenario, ScenarioError, from_json, to_json
from onceproof.harness.model.seeds import is_checked_twice, is_continued
from onceproof.harness.model.system import System, prepared, requests_left
from onceproof.harness.systems.simulation.comparison_runs import RecordedRun
from onceproof.harness.systems.simulation.simulated_system import SimulatedSystem
from onceproof.harness.systems.simulation.stopping import Stopped, stopped_in_time
from onceproof.harness.systems.simulation.world import World
from onceproof.harness.trials.checkpoint_trials import FailedContinuation, failed_continuation
from onceproof.harness.trials.control_runs import learned
from onceproof.harness.trials.faultless_runs import undisturbed
from onceproof.harness.trials.schemas import misfit_of
from onceproof.harness.trials.supervision import Lost, judged_lost, lost_by, lost_outcome
from onceproof.reports.notes import JUDGED

SIMULATED: Final[System] = SimulatedSystem()
CHECKED_SCENARIOS: Final = 10
"""The scenarios that are drawn before a run, to look at their records and expected rows."""


class StoppedInGenerate(FamilyError):
    """``generate`` did not return, or would have ended the process."""

    def __init__(self, place: str, stopped: Stopped) -> None:
        super().__init__(f"{place}: generate() {_stop_text(stopped)}")
        self.lost: Final[Lost] = lost_by(stopped, is_generated=False)


@dataclass(frozen=True, slots=True)
class Trial:
    """The history and verdict of a scenario that was run."""

    history: History
    verdict: Verdict
    scenario: Scenario
    """The scenario as it was run, with what the system decided before the run."""
    continuation: FailedContinuation | None = None
    """Where the run passed: the job restored from one of its checkpoints, which did not."""
    lost: Lost | None = None
    """How the scenario was stopped; None: it ended."""

    @property
    def shown(self) -> History:
        """The run that fails: ``history``, or that of the job restored from one of its checkpoints."""
        return self.history if self.continuation is None else self.continuation.history


def try_scenario(
    family: Family,
    scenario: Scenario,
    trace: bool = False,
    twice: bool | None = None,
    system: System = SIMULATED,
    continued: bool | None = None,
) -> Trial:
    """Run a scenario on a system and judge it.

    Args:
        trace: whether the history carries the full trace.
        twice: whether to run it a second time for determinism; None leaves that to the seed.
        system: the system under test.
        continued: whether to restore and compare its checkpoints if it passed; None leaves that to the seed.

    Raises:
        FamilyError: the family's own code raised.
    """
    is_real = Capability.DETERMINISM not in system.capabilities
    try:
        with nullcontext() if is_real else stopped_in_time(source_file(family)):
            return _tried(family, scenario, trace, twice, system, continued)
    except Stopped as stopped:
        lost = lost_by(stopped, is_generated=True)
        return Trial(*judged_lost(lost), scenario, lost=lost)


def _tried(
    family: Family,
    scenario: Scenario,
    trace: bool,
    twice: bool | None,
    system: System,
    continued: bool | None,
) -> Trial:
    drawn, scenario = scenario, as_run(system, family, scenario)
    is_to_continue = (is_continued(scenario.seed) if continued is None else continued) and (
        Capability.CONTINUATIONS in system.capabilities
        and scenario.takes_checkpoints
        and not changes_input(scenario)
    )
    history: History | None = None
    try:
        history, recorded = _run(system, family, scenario, trace, records=is_to_continue)
        history.statistics.not_applicable |= requests_left(drawn, scenario)
        begun = perf_counter()
        oracle = PythonOracle(family, scenario)
        history = within_tolerance(history, oracle)
        verdict = judge(scenario, history, oracle)
        if judged := oracle.judge(rows_at_end(history), history):
            history.statistics.notes += (f"{JUDGED}{judged}",)
        if phases := history.statistics.phase_milliseconds:
            phases["judge"] = (perf_counter() - begun) * 1000
    except Exception as error:
        if is_full(error):
            raise
        raise_as_family_error(family, error, f"seed {scenario.seed}")
        check_values(family, scenario)
        if history is not None:
            _check_rows(family, scenario, history)
        if scenario.seed is not None:
            error.add_note(f"{REPLAY_NOTE}{replay_command(scenario.seed, _address_of(family), system.name)}")
        raise
    if not verdict.passed:
        _check_rows(family, scenario, history)
        # The scenarios of the shrinker have no seed, and values of one that was checked.
        if scenario.seed is not None:
            check_values(family, scenario)
    wanted = is_checked_twice(scenario.seed) if twice is None else twice
    if wanted and Capability.DETERMINISM in system.capabilities and not draws_chance(family):
        differences = check_determinism(history, system.run(family, scenario))
        if differences:
            verdict = Verdict((*verdict.violations, *differences))
    continuation = None
    if is_to_continue and verdict.passed:
        continuation = failed_continuation(family, scenario, trace, recorded)
        if continuation is not None:
            verdict = Verdict(continuation.violations)
    return Trial(history, verdict, scenario, continuation)


def _run(
    system: System, family: Family, scenario: Scenario, trace: bool, *, records: bool
) -> tuple[History, RecordedRun | None]:
    """Run a scenario; return its checkpoints as well if they are wanted and the system records them.

    A system that runs scenarios in a way of its own, derived from the simulation, records none.
    """
    if records and isinstance(system, SimulatedSystem) and type(system).run is SimulatedSystem.run:
        return system.run_recorded(family, scenario, trace)
    return system.run(family, scenario, trace), None


def _address_of(family: Family) -> str:
    """Return how a command names a family; only its name where no other process can load it."""
    try:
        return address_of(family)
    except FamilyError:
        return family.name


def run_scenario(family: Family, scenario: Scenario, system: System = SIMULATED) -> tuple[Outcome, History]:
    """Run a scenario on a system; return its outcome and its history."""
    trial = try_scenario(family, scenario, system=system)
    if trial.lost is not None:
        assert scenario.seed is not None, "scenarios of a run have seeds"
        return lost_outcome(family, scenario.seed, trial.lost), trial.history
    return outcome_of(trial.scenario, trial.history, trial.verdict), trial.history


def changes_input(scenario: Scenario) -> bool:
    """Return whether a fault changes the input: no other run reads the same, so none is compared with it."""
    return any(FAULTS[fault.kind].strikes == "input" for fault in scenario.faults)


def as_run(system: System, family: Family, scenario: Scenario) -> Scenario:
    """Return the scenario with the faults that only some jobs or systems have, and what it decides itself.

    What is drawn follows from the seed: doing it again changes nothing, nor does a scenario without a seed or
    of another generation, which was stored as it ran. The control run of a program comes before.
    """
    measured = learned(system, family, partial(scenario_of, family))
    if scenario.generator_version != generator_version(family):
        return prepared(system, scenario)
    if isinstance(family, ProgramFamily):
        try:
            scenario = with_program_faults(family, scenario, measured)
        except Exception as error:
            # How many rows are expected is asked of the user's oracle.
            raise_as_family_error(family, error, f"seed {scenario.seed}")
            raise
    elif Capability.SERVER_FAULTS in system.capabilities:
        scenario = with_server_faults(family, scenario)
        scenario = with_outside_faults(family, scenario, system.capabilities)
    return prepared(system, scenario)


def scenario_of(family: Family, seed: int, drawing: Drawing = USUAL) -> Scenario:
    """Return the scenario of a seed; a replay has the usual drawing.

    Raises:
        FamilyError: the family's ``generate`` raised, or did not return.
    """
    try:
        with stopped_in_time(source_file(family)):
            return generate(family, seed, drawing)
    except Stopped as stopped:
        raise StoppedInGenerate(f"{source_file(family) or family.name}: seed {seed}", stopped) from None
    except Exception as error:
        raise_as_family_error(family, error, f"seed {seed}")
        raise


def check_family(family: Family) -> None:
    """Check once before a run that a family's scenarios, rows and task names are valid.

    Raises:
        FamilyError: generate(), expected(), a schema or ``tasks`` is wrong, or a function does not return.
    """
    place = source_file(family) or family.name
    for seed in range(CHECKED_SCENARIOS):
        _check_draw(family, seed)
    scenario = scenario_of(family, 0)
    job = World(family, scenario).job
    try:
        tasks = tasks_with(family, scenario.parameters)
        with stopped_in_time(source_file(family)):
            graph = job.build_graph()
    except Stopped as stopped:
        raise FamilyError(f"{place}: job() {_stop_text(stopped)}") from None
    except Exception as error:
        raise_as_family_error(family, error, "seed 0")
        raise
    if not job.has_sink:
        raise FamilyError(
            f"{place}: job() writes to no sink of the harness, so there are no rows to compare: end it with"
            ' .add_sink(io.sink("out")), or with another sink of io'
        )
    vertices = [vertex.name for vertex in graph.vertices]
    if set(vertices) != set(tasks):
        named, actual = ", ".join(tasks), ", ".join(vertices)
        raise FamilyError(f"{place}: 'tasks' names {named}, but the vertices of job() are {actual}")
    ends = [vertex.name for vertex in graph.vertices if not vertex.outputs]
    last = writing_vertices(tasks)[-1]
    if last not in ends:
        raise FamilyError(
            f"{place}: 'tasks' gives no vertex the role 'sink', so faults strike the last one that it names,"
            f" and {last!r} does not write: name {ends[-1]!r} last, or give it the role 'sink' if its"
            " parallelism is io.sink_parallelism"
        )


def _check_draw(family: Family, seed: int) -> None:
    """Check the records of a seed and the rows that are expected for them."""
    place = source_file(family) or family.name
    scenario = scenario_of(family, seed)
    if scenario_of(family, seed) != scenario:
        raise FamilyError(
            f"{place}: seed {seed}: generate() gives other records when it is called again: draw from its"
            " argument only, through Chance, and not from the clock, the module random or the order of a set"
        )
    check_values(family, scenario)
    misfit = None
    try:
        with stopped_in_time(source_file(family)):
            declared = Declared(rows=_rows_to_settle(family, scenario), parameters=scenario.parameters)
            rows: object = family.expected(scenario.records, declared)
            if (versions := options_of(family).versions) is not None:
                list(versions(scenario.records))
            if isinstance(rows, Iterable) and not isinstance(rows, str | bytes | Iterator):
                _refuse_what_is_no_tuple(rows, f"{place}: seed {seed}: expected() returns")
                misfit = misfit_of(family, scenario)
    except Stopped as stopped:
        raise FamilyError(f"{place}: seed {seed}: expected() {_stop_text(stopped)}") from None
    except Exception as error:
        raise_as_family_error(family, error, f"seed {seed}")
        raise
    if not isinstance(rows, Iterable) or isinstance(rows, str | bytes | Iterator):
        raise FamilyError(
            f"{place}: seed {seed}: expected() returns {rows!r}, but it must return a list of rows"
        )
    if misfit is not None:
        raise FamilyError(f"{place}: seed {seed}: {misfit[1]}")


def _rows_to_settle(family: Family, scenario: Scenario) -> Rows:
    """Return the rows of a run without faults; none for a family that settles nothing.

    A script compares rows that its calm run lacks with a run of each variant, and no rows are such ones.
    """
    if not options_of(family).settles:
        return ()
    return rows_at_end(World(family, undisturbed(scenario, parallelism=1)).run())


def _stop_text(stopped: Stopped) -> str:
    """Return what came of a function, as the end of a sentence."""
    what = stopped.anomaly if stopped.is_exit else f"does not return: {stopped.anomaly}"
    return f"{what}{stopped.place}"


def check_values(family: Family, scenario: Scenario) -> None:
    """Raise a FamilyError if the family generated values that a scenario cannot hold."""
    place = f"{source_file(family) or family.name}: seed {scenario.seed}"
    try:
        # What exceeds 64 bits has a place in JSON, and none in the events of a run.
        msgspec.msgpack.encode(scenario.records)
        read_back = from_json(to_json(scenario))
    except (ScenarioError, TypeError, ValueError, OverflowError) as error:
        raise FamilyError(
            f"{place}: generate() returns values that a scenario cannot hold: {error}"
        ) from None
    if read_back != scenario:
        raise FamilyError(
            f"{place}: generate() returns values that JSON changes; a record is (timestamp, value), a value"
            " is a string, an integer of 64 bits, a finite float, a bool, None or a tuple of these"
        )


def _check_rows(family: Family, scenario: Scenario, history: History) -> None:
    """Raise a FamilyError if the job committed a row that cannot be compared with the oracle's."""
    place = source_file(family) or family.name
    for _, kind, _, payload in history.events:
        if kind in (TRANSACTION_VISIBLE, ROWS_FOUND, ROWS_WRITTEN):
            origin = f"{place}: seed {scenario.seed}: the job writes"
            _refuse_what_is_no_tuple(payload["rows"], origin, " to the sink")


def _refuse_what_is_no_tuple(rows: Iterable[object], origin: str, target: str = "") -> None:
    """Raise a FamilyError that names the first row that is no tuple, between ``origin`` and ``target``."""
    for row in rows:
        if type(row) is not tuple:
            raise FamilyError(f"{origin} {row!r}{target}, but a row is a tuple")


def raise_as_family_error(family: Family, error: Exception, where: str) -> None:
    """Raise a FamilyError with file and line if the family's file is in the error's traceback."""
    path = source_file(family)
    if path is None or isinstance(error, FamilyError):
        return
    frames = traceback.extract_tb(error.__traceback__)
    line = next((frame.lineno for frame in reversed(frames) if frame.filename == path), None)
    if line is not None:
        text = " ".join(str(error).split())
        raise FamilyError(f"{path}:{line}: {where}: {type(error).__name__}: {text}") from error
