"""Two versions of a script of Flink SQL as a family: the new one goes on from the state of the old one.

Rules:

- As for programs (`scripts/upgrade_family.py`), each scenario replaces the old version once. Operators are
  matched by the ids of their nodes, which a plan that was compiled anew need not keep.
- Refused is what Flink refuses: state without an operator, unless the user lets it be left behind, and state
  of another layout (`state_layouts.py`).
- Versions that come to the same tables must do so across an upgrade as well. Otherwise tables are those of
  the new version without faults from the same state, where these runs agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, cast

from onceproof.engine.checkpoint.redistribution import RestoreRefused
from onceproof.engine.configuration import RECOVERY_IGNORE_UNCLAIMED
from onceproof.engine.table.plans import Plan
from onceproof.engine.table.table_ends import source_end
from onceproof.harness.model.family import (
    Declared,
    Family,
    FamilyError,
    FamilyOptions,
    JobIO,
    Records,
    Rows,
    Vertices,
    Workload,
)
from onceproof.harness.model.family_places import WORDS
from onceproof.harness.model.history import rows_at_end
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.scripts.calm_runs import RowCounts, calm_scenario, has_finished, variants_of
from onceproof.harness.scripts.kept_state import Versions, kept_in
from onceproof.harness.scripts.sql.sink_tables import corrected_rows, final_tables
from onceproof.harness.scripts.sql.sql_family import SqlFamily
from onceproof.harness.scripts.sql.state_layouts import refused_layout, uid_of
from onceproof.harness.scripts.upgrade_family import kept_by, two_checkpoints, upgrade_of, with_state_of
from onceproof.harness.systems.simulation.comparison_runs import restored_run
from onceproof.harness.systems.simulation.world import World

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment

_COMPARED: Final = 9
"""How many inputs decide whether the versions come to the same tables."""


class SqlUpgradeFamily:
    """The upgrade of a script.

    Args:
        path: the file of the new version.
        said: what its address says of it behind the question mark, the file of the old version among it.
    """

    generator_version = 1
    record_schema = row_schema = oracle_sql = ""

    def __init__(self, path: Path, said: str) -> None:
        self.path, self.said = path, said
        self.oracle_file = str(path)
        earlier, words, self._is_allowed = upgrade_of(path, said)
        following = f"{WORDS}{words}" if words else ""
        self._old, self._new = _version(earlier, following), _version(path, following)
        self._continued = _NewVersion(self._new, self._is_allowed)
        self.name = f"{self._new.name}-from-{self._old.name}"
        self._check_sources()
        self._compare_tables()
        self._compare_states()

    # The members of a family.

    @property
    def tasks(self) -> Vertices:
        """The vertices of both versions."""
        return {**self._old.tasks, **self._new.tasks}

    @cached_property
    def options(self) -> FamilyOptions:
        """What follows from the jobs."""
        both = (self._old.options, self._new.options)
        # What is in flight belongs to a channel, and would be processed by the new version.
        is_aligned = self._old.tasks.keys() != self._new.tasks.keys() or not self.is_equal
        return FamilyOptions(
            declares=True,
            settles=True,
            fan_out=max(each.fan_out for each in both),
            barriers="aligned" if is_aligned or any(each.barriers for each in both) else None,
            upgraded=self._upgraded,
        )

    def generate(self, random: Random) -> Workload:
        """Draw rows that both versions take."""
        workload = self._old.generate(random)
        return workload if self._new.calm_rows(workload.records) is not None else self._new.generate(random)

    def job(self, env: StreamExecutionEnvironment, io: JobIO) -> None:
        """Make the job of the old version."""
        self._old.job(env, io)

    def _upgraded(self, env: StreamExecutionEnvironment, io: JobIO) -> None:
        """Make the job of the new version."""
        if self.refused:
            raise RestoreRefused(self.refused)
        self._continued.job(env, io)

    def expected(self, records: Records, declared: Declared) -> Rows:
        """Return the changes that should be there; of a part of the input, those that are."""
        old, new = self._old, self._new
        if not declared.is_whole or old.may_expire(declared) or new.may_expire(declared):
            return declared.rows
        if declared.upgraded_at is None:
            return old.expected(records, declared)
        if self.is_equal and self._difference_on(records) == "":
            return new.expected(records, declared)
        runs = self._continuations(records, declared.scenario)
        if not runs or any(_tables(new, run) != _tables(new, runs[0]) for run in runs):
            return declared.rows
        return corrected_rows(new.sinks, declared.rows, runs[0])

    def _continuations(self, records: Records, scenario: Scenario | None) -> list[RowCounts]:
        """Return the rows of runs without faults from the state with which the new version began."""
        recorded = None if scenario is None else kept_by(cast(Family, self), scenario)
        if scenario is None or recorded is None or recorded.is_overtaken:
            return []
        calm = with_state_of(scenario, calm_scenario(self._old, records))
        histories = [
            restored_run(cast(Family, self._continued), each, recorded, each.parallelism)
            for each in (calm, *variants_of(calm))
        ]
        return [RowCounts(rows_at_end(each)) for each in histories if has_finished(each)]

    # The comparison.

    def _check_sources(self) -> None:
        """Raise FamilyError where the versions do not read the same tables."""
        old, new = [
            {name: (table.end.type, table.mode) for name, table in each.sources.items()}
            for each in (self._old, self._new)
        ]
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                how = (
                    "with other columns or changes" if name in old and name in new else "in one version only"
                )
                raise FamilyError(
                    f"{self.path}: {name} is read {how}: both versions of an upgrade get the same rows, so"
                    " they must read the same tables"
                )

    def _compare_tables(self) -> None:
        """Find out whether the versions come to the same tables."""
        random = Random(1)
        found = [self._difference_on(self._old.generate(random).records) for _ in range(_COMPARED)]
        self._difference = next(filter(None, found), "")
        self.is_equal = not self._difference

    def _difference_on(self, records: Records) -> str:
        """Return a row that only one version has; "": there is none."""
        runs = [each.calm_rows(records) for each in (self._old, self._new)]
        if runs[0] is None or runs[1] is None:
            return ""
        before, after = _tables(self._old, runs[0]), _tables(self._new, runs[1])
        for rows, others, which in ((before, after, "old"), (after, before, "new")):
            if only := sorted((rows - others).elements(), key=repr):
                return f"{only[0]} in the {which} one only"
        return ""

    def _compare_states(self) -> None:
        records = self._old.generate(Random(0)).records
        before, after = [
            kept_in(two_checkpoints(each, calm_scenario(each, records))) for each in (self._old, self._new)
        ]
        graph = World(self._new, calm_scenario(self._new, records)).job.build_graph()
        uids = {node.operator_id: node.uid for vertex in graph.vertices for node in vertex.operators}
        self._versions = Versions(before, after, uids, frozenset(), "")
        self.refused = refused_layout(self._old.plan, self._new.plan)
        self._moved = list(self._moved_sources())
        if self._moved and not self._is_allowed:
            self.refused = self.refused or self._moved[0]

    def _moved_sources(self) -> Iterator[str]:
        """Yield a sentence for each table whose source has another id in the new version."""
        old, new = [_scans(each.plan) for each in (self._old, self._new)]
        for name, uids in old.items():
            if gone := sorted(uids - new[name]):
                yield (
                    f"the offsets of {name} are state of operator {gone[0]!r}, which the new version lacks:"
                    f" its source is {min(new[name])!r} there"
                )

    def notes(self) -> Iterator[str]:
        """Yield what becomes of the state, and how tables are judged, one sentence each."""
        yield from self._versions.lines(is_allowed=self._is_allowed)
        yield from self._moved
        if self.refused:
            yield f"the new version is refused: {self.refused}"
        if self.is_equal:
            yield f"both versions come to the same tables on {_COMPARED} inputs: so must every upgrade"
            yield self._new.judge
        else:
            yield (
                f"the versions differ without an upgrade: {self._difference}; tables are judged by the new"
                " version without faults from the same state"
            )


class _NewVersion:
    """The new version alone, as it restores the state of the old one."""

    def __init__(self, family: SqlFamily, is_allowed: bool) -> None:
        self._family, self._is_allowed = family, is_allowed
        self.name, self.oracle_file, self.options = family.name, family.oracle_file, family.options

    def job(self, env: StreamExecutionEnvironment, io: JobIO) -> None:
        """Make the job, which may leave state behind if it is allowed."""
        self._family.job(env, io)
        if self._is_allowed:
            env.get_configuration().set(RECOVERY_IGNORE_UNCLAIMED, True)


def _tables(family: SqlFamily, rows: RowCounts) -> RowCounts:
    """Return the rows of all tables to which the rows of a run come."""
    found: RowCounts = RowCounts()
    for name, table in final_tables(family.sinks, rows).items():
        for row, count in table.items():
            found[family.sinks[name].sink.written(row)] += count
    return found


def _scans(plan: Plan) -> dict[str, set[str]]:
    """Return by table the uids of the operators that read it."""
    found: dict[str, set[str]] = {}
    for node in plan.nodes:
        if node.type == "table-source-scan":
            found.setdefault(source_end(node).name, set()).add(uid_of(node))
    return found


@cache
def _version(path: Path, said: str) -> SqlFamily:
    """Return a version, at which its process looks once; its rows bear the names of their sinks."""
    return SqlFamily(path, said, tags_sinks=True)
