"""Relations that need no oracle: what changes nothing in the meaning of a job changes nothing in its rows.

Rules:

- A relation changes one thing of an undisturbed scenario, or of its job. Both run, and the rows that are
  visible at the end are compared, as a multiset.
- Where the order of arrival decides about rows, any change may change them. So the scenario runs under other
  schedules first; a family whose rows differ there is left out, and the test asks for how many are not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family import Family, options_of
from onceproof.harness.model.family_places import family_names, load_family
from onceproof.harness.model.history import JOB_FINISHED, Row, rows_at_end
from onceproof.harness.model.job_settings import CheckpointMode
from onceproof.harness.model.scenario import Fault, Operation, Scenario, Schedule
from onceproof.harness.model.step_limits import with_ample_limits
from onceproof.harness.systems.simulation.world import World
from onceproof.harness.trials.faultless_runs import undisturbed

SEED = 4
SCHEDULES = 8
"""Under so many others a family has the same rows, whose rows do not depend on the order of arrival."""
FEWEST_SETTLED = 60
PAIRS = ("pairs", "textbook_pairs", "textbook_pairs_in_a_union_list")
"""Which two records meet in them follows from how a list state is dealt out, also without any schedule."""


class Relation(NamedTuple):
    """One thing that changes no row."""

    changed: Callable[[Scenario], Scenario] = lambda scenario: scenario
    job: Callable[[Family, Any, Any], None] | None = None
    """Describes the changed job; None: the job as it is."""
    fits: Callable[[Family], bool] = lambda family: True


def middle(scenario: Scenario) -> int:
    return max(1, scenario.record_count())


def asked(kind: Any, scenario: Scenario, **more: Any) -> Scenario:
    return replace(scenario, operations=(Operation(kind, "element", occurrence=middle(scenario), **more),))


def with_identity(family: Family, env: Any, io: Any) -> None:
    """Describe the job with a map behind each source that returns what it gets."""
    from_source = env.from_source

    def mapped(*arguments: Any, **named: Any) -> Any:
        source = from_source(*arguments, **named)
        return source.map(lambda value: value, source.get_type()).name("identity")

    env.from_source = mapped
    family.job(env, io)


def without_chains(family: Family, env: Any, io: Any) -> None:
    """Describe the job with each operator in a task of its own."""
    env.disable_operator_chaining()
    family.job(env, io)


def takes_unaligned(family: Family) -> bool:
    return options_of(family).barriers in (None, "unaligned")


RELATIONS = {
    "unaligned barriers": Relation(
        lambda scenario: replace(scenario, mode=CheckpointMode("unaligned")), fits=takes_unaligned
    ),
    "an alignment of 1 ms": Relation(
        lambda scenario: replace(scenario, mode=CheckpointMode("unaligned", 1)), fits=takes_unaligned
    ),
    "no checkpoints": Relation(lambda scenario: replace(scenario, without_checkpoints=True)),
    "another maximum parallelism": Relation(
        lambda scenario: replace(scenario, max_parallelism=scenario.max_parallelism + 3)
    ),
    "the maximum parallelism of the checkpoint": Relation(
        lambda scenario: replace(asked("stop", scenario), leaves_max_parallelism=True),
        fits=lambda family: not options_of(family).draws_graphs,
    ),
    "a stop": Relation(partial(asked, "stop")),
    "a cancel": Relation(partial(asked, "cancel")),
    "a restart": Relation(
        lambda scenario: replace(
            scenario, faults=(Fault("kill_process", "element", occurrence=middle(scenario)),)
        ),
        fits=lambda family: options_of(family).barriers != "at_least_once",
    ),
    "an identity": Relation(job=with_identity, fits=lambda family: not options_of(family).draws_graphs),
    "no chains": Relation(job=without_chains),
    "the other backend": Relation(
        lambda scenario: replace(scenario, state_backend="rocksdb", incremental=True),
        fits=lambda family: options_of(family).any_backend,
    ),
    "several records at a time": Relation(lambda scenario: replace(scenario, buffer_records=3)),
}


def rows_of(family: Family, scenario: Scenario) -> Counter[Row]:
    history = World(family, with_ample_limits(scenario)).run()
    assert any(event[1] == JOB_FINISHED for event in history.events), (family.name, history.events[-3:])
    return Counter(map(tuple, rows_at_end(history)))


def changed_family(family: Family, describe: Callable[[Family, Any, Any], None]) -> Family:
    members = {name: getattr(family, name) for name in dir(family) if not name.startswith("__")}
    changed: Any = SimpleNamespace(**members)
    changed.job = partial(describe, family)
    return changed


def calm_scenario(family: Family) -> Scenario:
    drawn = next(each for seed in range(SEED, 50) if (each := generate(family, seed)).record_count() > 3)
    calm = undisturbed(replace(drawn, endless=UNSET, without_checkpoints=UNSET, restarts=UNSET))
    return replace(calm, leaves_max_parallelism=UNSET, state_backend=UNSET, incremental=UNSET)


def differences(family: Family, calm: Scenario, names: Iterable[str]) -> list[str] | None:
    """Return the relations that do not hold; None where the rows depend on the order of arrival."""
    rows = rows_of(family, calm)
    for seed in range(1, 1 + SCHEDULES):
        if rows_of(family, replace(calm, schedule=Schedule("uniform", seed, horizon=2_000))) != rows:
            return None
    found = []
    for name in names:
        relation = RELATIONS[name]
        if relation.fits(family):
            changed = family if relation.job is None else changed_family(family, relation.job)
            if rows_of(changed, relation.changed(calm)) != rows:
                found.append(name)
    return found


def test_what_means_the_same_gives_the_same_rows_in_all_families() -> None:
    found = {}
    for name in [name for name in family_names() if name not in PAIRS]:
        family = load_family(name)
        found[name] = differences(family, calm_scenario(family), RELATIONS)
    assert sum(each is not None for each in found.values()) >= FEWEST_SETTLED
    assert {name: each for name, each in found.items() if each} == {}


def test_a_relation_that_does_not_hold_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    family = load_family("running_sum")

    def unread(scenario: Scenario) -> Scenario:
        split = max(scenario.records, key=lambda each: len(scenario.records[each]))
        records = {**scenario.records, split: scenario.records[split][1:]}
        return replace(scenario, records=records)

    monkeypatch.setitem(RELATIONS, "a record less", Relation(unread))
    assert differences(family, calm_scenario(family), ["a record less", "no chains"]) == ["a record less"]
