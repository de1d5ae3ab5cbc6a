"""What is made of each way in which a run failed: a small scenario, its explanation, and files to keep.

The rules this module lives by:

- One case for each family and signature: the first that failed, shrunk. The others are counted.
- The scenario's JSON is the proof, so both are written, the small one and the one that was found. The name
  holds family and signature and nothing else: the same failure of the next night has the same name.
- A seed that does not fail again when it is replayed is told as that, and never shrunk: whatever came out
  of shrinking it would be another failure.
- Only where a run can be repeated step by step can it be shrunk: on another system the scenario is kept as
  it was found, with the history of the run that is made to explain it.
- Shrinking takes seconds a case, and there is no limit to the ways in which a broken engine can fail: the
  first ones are shrunk, the others are kept as they are. New ones come before those that are known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

from harness.checkers import CONTINUATIONS, Signature
from harness.checkers.determinism import PROPERTY as DETERMINISM
from harness.explanation.decisions import Fails, Takes, weigh
from harness.explanation.explanation import Explanation, explain
from harness.explanation.wording import replay_command, shrink_command
from harness.family import Family, FamilyError, Rows
from harness.history import History, rows_at_end
from harness.known import KnownSignature, find_known
from harness.oracle import PythonOracle
from harness.running.runner import OutputUnwritable, RunResult
from harness.running.tally import Group
from harness.scenario import Scenario, to_json
from harness.shrinking.shrinker import LIMIT_SECONDS, ShrinkResult, shrink
from harness.simulation.system import record_preemptions
from harness.systems.protocol import Capability
from harness.trial import scenario_of, try_scenario
from harness.verdict import Verdict

FOLDER: Final = "failures"
MOST_SHRUNK: Final = 10


@dataclass(frozen=True, slots=True)
class FailureCase:
    """One way in which a run failed."""

    family: Family
    signature: Signature
    count: int
    """In how many scenarios of the run."""
    original: Scenario
    shrunk: ShrinkResult
    history: History
    """Of the small scenario, with its trace."""
    verdict: Verdict
    """Of the small scenario."""
    explanation: Explanation
    replay: str
    """The command that replays the small scenario."""
    replay_seed: str
    """The command that replays the scenario as it was found; empty where it has no seed."""
    shrink: str
    """The command that shrinks the scenario as it was found."""
    takes: Takes | None = None
    """Its decisions, and which of them matter; None where the run cannot be repeated without them."""
    known: KnownSignature | None = None
    """The entry of the settings that lists it; None: it is new."""

    @property
    def scenario(self) -> Scenario:
        """The small scenario."""
        return self.shrunk.scenario

    @property
    def expected_rows(self) -> Rows:
        """The rows that should have become visible, each as often as it should."""
        counts = PythonOracle(self.family, self.scenario).rows(self.actual_rows)
        return [row for row, count in counts.items() for _ in range(count)]

    @property
    def actual_rows(self) -> Rows:
        """The rows that became visible."""
        return rows_at_end(self.history)


def failure_cases(
    result: RunResult,
    folder: Path,
    progress: Callable[[str], None] = lambda text: None,
    known: Sequence[KnownSignature] = (),
    original_of: Callable[[Group], Scenario] | None = None,
) -> list[FailureCase]:
    """Shrink, explain and write down each way in which a run failed, new ones first.

    ``progress`` is told what is shrunk; ``original_of`` gives the scenario that was found where it does not
    come from a seed.
    """
    listed = [
        (find_known(known, group.first.family, group.signature), group)
        for group in result.tally.groups.values()
    ]
    cases = []
    for number, (entry, group) in enumerate(sorted(listed, key=lambda each: each[0] is not None)):
        progress(f"shrinking {group.first.family}: {', '.join(group.signature)}")
        # Who has interrupted a run does not wait for its failures to be shrunk.
        repeatable = Capability.DETERMINISM in result.system.capabilities
        shrinks = repeatable and number < MOST_SHRUNK and not result.interrupted
        original = original_of(group) if original_of else _of_seed(result, group)
        limit_seconds = LIMIT_SECONDS if shrinks else 0.0
        cases.append(_case_of(result, group, original, folder, limit_seconds, entry))
    return cases


def _of_seed(result: RunResult, group: Group) -> Scenario:
    seed = group.first.seed
    assert seed is not None
    return scenario_of(result.family(group.first.family), seed)


def _case_of(
    result: RunResult,
    group: Group,
    original: Scenario,
    folder: Path,
    limit_seconds: float,
    known: KnownSignature | None,
) -> FailureCase:
    name = group.first.family
    family, asked = result.family(name), result.asked_for(name)
    seed = original.seed
    shrunk = shrink_scenario(family, original, group.signature, limit_seconds)
    paths = failure_paths(folder, name, group.signature)
    write_scenario(original, paths[1])
    write_scenario(shrunk.scenario, paths[0])
    trial = try_scenario(
        family,
        shrunk.scenario,
        trace=True,
        twice=_twice(group.signature),
        system=result.system,
        continued=group.signature[0] in CONTINUATIONS,
    )
    repeatable = Capability.DETERMINISM in result.system.capabilities and not result.interrupted
    repeated = repeatable and trial.verdict.signature == group.signature
    return FailureCase(
        family=family,
        signature=group.signature,
        count=group.count,
        original=original,
        shrunk=shrunk,
        history=trial.history,
        verdict=trial.verdict,
        explanation=explain(shrunk.scenario, trial.history, trial.history.trace, trial.verdict),
        replay=replay_command(paths[0], asked, result.system.name),
        replay_seed="" if seed is None else replay_command(seed, asked, result.system.name),
        shrink=shrink_command(paths[1], asked),
        takes=what_it_takes(family, shrunk.scenario, group.signature) if repeated else None,
        known=known,
    )


def shrink_scenario(
    family: Family, scenario: Scenario, signature: Signature, limit_seconds: float = LIMIT_SECONDS
) -> ShrinkResult:
    """Return the smallest scenario that fails with the signature; the given one if it does not fail so."""
    fails = _failing(family, signature)
    if limit_seconds and fails(scenario) != signature:
        limit_seconds = 0.0
    return shrink(
        scenario,
        fails,
        signature,
        limit_seconds,
        lambda candidate: record_preemptions(family, candidate),
    )


def what_it_takes(family: Family, scenario: Scenario, signature: Signature) -> Takes:
    """Return which decisions of a scenario matter to its failing with the signature."""
    return weigh(scenario, signature, _failing(family, signature))


def _failing(family: Family, signature: Signature) -> Fails:
    """Return what runs a scenario and says how it fails, as far as a failure of the signature can be seen."""

    def fails(candidate: Scenario) -> Signature | None:
        try:
            trial = try_scenario(
                family, candidate, twice=_twice(signature), continued=signature[0] in CONTINUATIONS
            )
            return trial.verdict.signature
        except FamilyError:
            # The family cannot take so small an input: that is not the failure that was found.
            return None

    return fails


def failure_paths(folder: Path, family: str, signature: Signature) -> tuple[Path, Path]:
    """Return where the small scenario of a failure is kept, and where the one that was found."""
    digest = blake2b("\n".join((family, *signature)).encode(), digest_size=3).hexdigest()
    # A family's name is anybody's choice, a file's is not.
    stem = f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', family)}-{digest}"
    return folder / FOLDER / f"{stem}.json", folder / FOLDER / f"{stem}.original.json"


def write_scenario(scenario: Scenario, path: Path) -> None:
    """Write a scenario's JSON."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(to_json(scenario, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise OutputUnwritable(f"{path}: cannot be written: {error.strerror or error}") from None


def _twice(signature: Signature) -> bool:
    """Only a second run shows that a scenario is not deterministic."""
    return signature[0] == DETERMINISM
