"""Two versions of a program as a family: the old one runs under faults, the new one goes on from its state.

Rules:

- Each scenario replaces the old version by the new one once: stopped or cancelled with a savepoint, or killed
  after a checkpoint, perhaps at another parallelism. Everything else is as for a script.
- Operators keep the ids that they have in the programs, whatever the harness puts in place of their ends.
  Ends without state of their own may change: the sinks in their place find each other by their order.
- Versions that commit the same rows for the same records must commit them across the upgrade as well.
  Otherwise rows are those of an upgrade without faults at the same cut. With windows or timers, of which
  watermarks decide which ones the old version has fired, they are those of the new version without faults
  from the same state: what the scenario itself had kept when the new version began.
- State is left behind only if the user allows it. What the engine would refuse at the programs' own
  parallelism is refused in each scenario.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import parse_qsl, urlencode

from msgspec.structs import replace

from onceproof.engine.checkpoint.redistribution import RestoreRefused
from onceproof.engine.configuration import RECOVERY_IGNORE_UNCLAIMED
from onceproof.engine.graph import InvalidJob, operator_ids
from onceproof.engine.key_groups import operator_id
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
from onceproof.harness.model.family_places import UPGRADES, WORDS
from onceproof.harness.model.history import ATTEMPT_STARTED, ERROR, JOB_UPGRADED, Cut, rows_at_end
from onceproof.harness.model.scenario import Scenario
from onceproof.harness.model.split_names import source_of
from onceproof.harness.scripts.calm_runs import (
    RowCounts,
    calm_scenario,
    has_finished,
    settled,
    variants_of,
)
from onceproof.harness.scripts.ends import Identities, has_windows, sinks_of
from onceproof.harness.scripts.kept_state import Versions, kept_in, refused_size, size_lines, sizes_of
from onceproof.harness.scripts.script_family import ScriptFamily
from onceproof.harness.scripts.script_notes import keeps_transactions
from onceproof.harness.scripts.variations import first_records
from onceproof.harness.systems.simulation.checkpoint_recorder import RecordedCheckpoint
from onceproof.harness.systems.simulation.comparison_runs import (
    recorded_run,
    restored_run,
    undisturbed_checkpoint,
)

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment

ALLOWED: Final = "allow-non-restored-state"
"""The word of an address that lets the new version leave state behind."""
_COMPARED: Final = 8
"""How many inputs decide whether the versions compute the same."""


class UpgradeFamily:
    """The upgrade of a program.

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
        rest = WORDS + words
        old = _earlier(earlier, rest)
        new = ScriptFamily(path, rest, old, has_real_ends=False)
        self._old = _Version(old.restricted_to(new))
        self._new = _Version(new, self._old)
        self.name = f"{new.name}-from-{old.name}"
        for version in (old, new):
            if version.options.in_batch_with({}):
                raise FamilyError(
                    f"{version.path}: a job in BATCH mode has no state that another could take over"
                )
        self._new.is_allowed = self._is_allowed
        self._compare_states()
        self._compare_rows()

    # The members of a family.

    @property
    def tasks(self) -> Vertices:
        """The vertices of both versions."""
        return {**self._old.family.tasks, **self._new.family.tasks}

    @cached_property
    def options(self) -> FamilyOptions:
        """What follows from the jobs."""
        both = (self._old.family.options, self._new.family.options)
        # Records in flight are processed by the new version, although they are before the cut.
        is_aligned = (
            not self.is_equal
            or any(each.barriers for each in both)
            # What is in flight belongs to a channel: to restore it, the graph must have the same shape.
            or self._old.family.tasks.keys() != self._new.family.tasks.keys()
        )
        return FamilyOptions(
            declares=True,
            settles=True,
            fan_out=max(each.fan_out for each in both),
            waits_ms=tuple({ms: None for each in both for ms in each.waits_ms}),
            barriers="aligned" if is_aligned else None,
            upgraded=self._upgraded,
        )

    def generate(self, random: Random) -> Workload:
        """Draw records that both versions take."""
        workload = self._old.family.generate(random)
        if self._new.family.calm_rows(workload.records) is None:
            return Workload(first_records(self._old.family.pools))
        return workload

    def job(self, env: StreamExecutionEnvironment, io: JobIO) -> None:
        """Describe the old version."""
        self._old.job(env, io)

    def _upgraded(self, env: StreamExecutionEnvironment, io: JobIO) -> None:
        """Describe the new version."""
        if self.refused_size is not None:
            raise RestoreRefused(self.refused_size)
        self._new.job(env, io)

    def expected(self, records: Records, declared: Declared) -> Rows:
        """Return what an upgrade without faults commits; of a part of the input, what is there."""
        old, new, cut = self._old.family, self._new.family, declared.upgraded_at
        if not declared.is_whole:
            return declared.rows
        if cut is None:
            return old.expected(records, declared)
        if self.is_equal and old.calm_rows(records) == new.calm_rows(records):
            return new.expected(records, declared)
        both = [family.determined(sets_clocks=declared.sets_clocks) for family in (old, new)]
        columns = [each.columns for each in both if each.columns is not None]
        if not all(each.is_judged for each in both):
            return declared.rows
        visible = Counter(declared.rows)
        if self._follows_watermarks:
            runs = self._continuations(records, declared.scenario, visible)
        else:
            runs = self._calm_upgrades(records, cut)
            if any(run != runs[0] for run in runs):
                return declared.rows
        if not runs:
            return declared.rows
        agreed = tuple(set(columns[0]).intersection(*columns)) if columns else None
        return list(settled(visible, runs, agreed).elements())

    @property
    def _follows_watermarks(self) -> bool:
        families = (self._old.family, self._new.family)
        return self._versions.has_timers or any(has_windows(family.operators) for family in families)

    def _calm_upgrades(self, records: Records, cut: Cut) -> list[RowCounts]:
        """Return the rows of upgrades without faults, whose old version has seen watermarks, or has not."""
        calm = calm_scenario(self._old.family, records)
        found = []
        for has_watermarks in (True, False):
            recorded = undisturbed_checkpoint(cast(Family, self._old), calm, cut, has_watermarks)
            if recorded is not None:
                history = restored_run(cast(Family, self._new), calm, recorded, 1)
                if has_finished(history):
                    found.append(Counter(rows_at_end(history)))
        return found

    def _continuations(
        self, records: Records, scenario: Scenario | None, visible: RowCounts
    ) -> list[RowCounts]:
        """Return the rows of runs without faults from the state with which the new version began.

        One is enough if it has the rows that are visible.
        """
        recorded = None if scenario is None else kept_by(cast(Family, self), scenario)
        if scenario is None or recorded is None or recorded.is_overtaken:
            return []
        calm = with_state_of(scenario, calm_scenario(self._old.family, records))
        found: list[RowCounts] = []
        for each in self._variants_over(calm, recorded.cut):
            history = restored_run(cast(Family, self._new), each, recorded, each.parallelism)
            if has_finished(history):
                found.append(Counter(rows_at_end(history)))
                if found[-1] == visible:
                    break
        return found

    def _variants_over(self, calm: Scenario, cut: Cut) -> Iterator[Scenario]:
        """Yield scenarios without faults over the same records before a cut.

        Few schedules may show no race. Where records of several subtasks or splits meet, what is read behind
        the cut comes in the opposite order as well, so that rows which follow the order are not judged.
        """
        yield calm
        yield from variants_of(calm)
        of_sources = Counter(map(source_of, calm.records))
        if self._old.family.mixes or self._new.family.mixes or max(of_sources.values()) > 1:
            behind = {
                split: (*own[: cut.get(split, 0)], *reversed(own[cut.get(split, 0) :]))
                for split, own in calm.records.items()
            }
            yield replace(calm, records=behind)

    # The comparison.

    def _compare_states(self) -> None:
        records = first_records(self._old.family.pools, repeats=True)
        held = [
            two_checkpoints(cast(Family, version), calm_scenario(version.family, records))
            for version in (self._old, self._new)
        ]
        ours = self._old.stand_ins | self._new.stand_ins
        old, new = [{name: kept for name, kept in kept_in(each).items() if name not in ours} for each in held]
        errors = []
        if held[0]:
            self._new.is_allowed = True
            history = restored_run(
                cast(Family, self._new), calm_scenario(self._old.family, records), held[0][0], 1
            )
            self._new.is_allowed = self._is_allowed
            errors = [payload["text"] for _, kind, _, payload in history.events if kind == ERROR]
        self._versions = Versions(old, new, self._new.uids, self._old.transactions, " ".join(errors))
        sizes = []
        for version in (self._old.family, self._new.family):
            try:
                sizes.append(sizes_of(version.described_as_written().get_job_graph(version.name)))
            except InvalidJob as error:
                raise FamilyError(f"{version.path}: {error}") from None
        self._sizes = [*size_lines(list(old.values()), *sizes)]
        self.refused_size = refused_size(held[0][0].metadata, *sizes) if held[0] else None
        self._errors = errors

    def _compare_rows(self) -> None:
        """Find out whether the versions compute the same."""
        old, new = self._old.family, self._new.family
        random = Random(1)
        self.is_equal = True
        self._difference = ""
        inputs = [first_records(old.pools, repeats=True)]
        inputs += [old.generate(random).records for _ in range(_COMPARED)]
        for records in inputs:
            here, there = old.calm_rows(records), new.calm_rows(records)
            if here is not None and there is not None and here != there:
                self.is_equal = False
                one, other = [
                    next(iter(sorted(map(repr, each))), "no such row")
                    for each in (here - there, there - here)
                ]
                self._difference = f"{one} in the old one, {other} in the new one"
                return

    def notes(self) -> Iterator[str]:
        """Yield what becomes of the state, and how rows are judged, one sentence each."""
        yield from self._versions.lines(is_allowed=self._is_allowed)
        yield from self._sizes
        if self.refused_size is not None:
            yield f"the new version is refused: {self.refused_size}"
        if self._errors:
            yield f"the new version cannot read the state: {self._errors[0]}"
        if self.is_equal:
            yield f"both versions commit the same rows on {1 + _COMPARED} inputs: so must every upgrade"
        else:
            judged = "rows are judged by an upgrade without faults at the same cut"
            if self._follows_watermarks:
                judged = "rows are judged by the new version without faults from the same state"
            yield f"the versions differ without an upgrade: {self._difference}; {judged}"
        for family in (self._old.family, self._new.family):
            yield from family.order_notes()


def upgrade_of(path: Path, said: str) -> tuple[Path, str, bool]:
    """Return what an address of an upgrade says. Raises FamilyError where the old version is not there.

    Returns:
        The file of the old version, the words for both versions, and whether state may be left behind.
    """
    words = parse_qsl(said.removeprefix(WORDS), keep_blank_values=True)
    earlier = path.parent / dict(words)[UPGRADES]
    if not earlier.is_file():
        raise FamilyError(f"{earlier}: no such file")
    of_both = urlencode([each for each in words if each[0] not in (UPGRADES, ALLOWED)], safe="=/")
    return earlier.absolute(), of_both, (ALLOWED, "") in words


def with_state_of(scenario: Scenario, calm: Scenario) -> Scenario:
    """Return a scenario without faults that restores the state of another one."""
    return replace(
        calm,
        max_parallelism=scenario.max_parallelism,
        state_backend=scenario.state_backend,
        incremental=scenario.incremental,
    )


def two_checkpoints(family: Family, calm: Scenario) -> list[RecordedCheckpoint]:
    """Return the checkpoints of a run without faults in the middle of the records, and near their end."""
    cuts = [{split: len(own) // 2 for split, own in calm.records.items()}]
    cuts.append({split: max(0, len(own) - 1) for split, own in calm.records.items()})
    found = [undisturbed_checkpoint(family, calm, cut) for cut in cuts]
    return [each for each in found if each is not None]


def kept_by(family: Family, scenario: Scenario) -> RecordedCheckpoint | None:
    """Return the checkpoint of a run from which the new version of a family began; None: it never did."""
    run = recorded_run(family, scenario)
    kinds = [kind for _, kind, *_ in run.events]
    if JOB_UPGRADED not in kinds:
        return None
    begun = kinds.index(JOB_UPGRADED)
    attempt = next((each for each in run.events[begun:] if each[1] == ATTEMPT_STARTED), None)
    before = [each for each in run.checkpoints if each.events_before <= begun]
    restored = [each for each in before if attempt and each.metadata.checkpoint_id == attempt[3]["restored"]]
    return restored[-1] if restored else None


@cache
def _earlier(path: Path, said: str) -> ScriptFamily:
    """Return an old version, at which its process looks once, whatever new ones there are."""
    return ScriptFamily(path, said, has_real_ends=False)


class _Version:
    """One version alone, with the operator ids of the program."""

    def __init__(self, family: ScriptFamily, earlier: _Version | None = None) -> None:
        self.family = family
        self.is_allowed = False
        """Whether it may leave state behind."""
        self.name, self.oracle_file = family.name, family.oracle_file
        # As the harness builds jobs of any name: ids do not follow from it.
        operators = family.operators
        ids = dict(zip([node.number for node in operators], operator_ids("", operators), strict=True))
        sinks = sinks_of(operators)
        with_state = {sink.name for sink in sinks if sink.what is not None and keeps_transactions(sink.what)}
        places = iter(range(len(sinks)))
        ends = {
            sink.name: ids[sink.node.number]
            if sink.name in with_state
            else operator_id(f"end {next(places)}")
            for sink in sinks
        }
        self.transactions: Final = frozenset(ends[name] for name in with_state)
        """The ids of the sinks that keep transactions."""
        self.stand_ins: Final = frozenset(ends.values()) - self.transactions
        """Those of the sinks in place of ends without state."""
        left = () if earlier is None else sorted(earlier.stand_ins - self.stand_ins)
        self.identities: Final = Identities(ids, ends, left)
        self.uids: Final = {ids[node.number]: node.uid for node in operators}

    @property
    def options(self) -> FamilyOptions:
        """Those of the program."""
        return self.family.options

    def job(self, env: StreamExecutionEnvironment, io: JobIO) -> None:
        """Describe the job."""
        self.family.describe(env, io, ids=self.identities)
        if self.is_allowed:
            env.get_configuration().set(RECOVERY_IGNORE_UNCLAIMED, True)
