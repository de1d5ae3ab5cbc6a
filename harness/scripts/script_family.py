"""A script as a family: its own job and records, judged by its own runs without faults.

Rules:

- A family in the sense of `model/family.py`, so that runs, shrinking, reports and replays treat it as any
  other. What it lacks is an oracle apart from the job: logic that is wrong without any fault is not seen.
- Its address is FILE.py, followed by what the user says of it: ``FILE.py?job=totals&sample=orders=o.jsonl``.
- A restore sets watermarks back, so records that were late need not be late again. Rows of windows are not
  judged where runs without faults differ.
- Records on which the job itself fails without a fault are not tried; the script's own ones take their place.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cached_property, partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, cast

from msgspec.structs import replace

from onceproof.engine.configuration import (
    ALLOW_PICKLED_STATE,
    AUTO_WATERMARK_INTERVAL,
    RUNTIME_MODE,
    Configuration,
)
from onceproof.engine.graph import PartitionerKind, StreamNode
from onceproof.harness.model.family import (
    Declared,
    FamilyError,
    FamilyOptions,
    JobIO,
    Records,
    Rows,
    Vertices,
    Workload,
)
from onceproof.harness.model.family_places import check_samples, said_of, script_name
from onceproof.harness.model.history import rows_at_end
from onceproof.harness.model.scenario import RecordValue, Scenario
from onceproof.harness.model.split_names import source_of, split_name
from onceproof.harness.model.step_limits import STEPS_PER_RECORD
from onceproof.harness.scripts.calm_runs import (
    CalmRuns,
    Determined,
    RowCounts,
    calm_scenario,
    determined_by,
    error_in,
    has_finished,
    later_variants_of,
    rows_of,
    settled,
    variants_of,
)
from onceproof.harness.scripts.ends import Identities, build, has_windows, sinks_of, sources_of
from onceproof.harness.scripts.outside import Outside, by_place
from onceproof.harness.scripts.own_ends import own_records
from onceproof.harness.scripts.real_sinks import RealSinks
from onceproof.harness.scripts.records import (
    Pool,
    known_records,
    local_records,
    pool_of,
    sampled_records,
)
from onceproof.harness.scripts.script import Script, files_beside
from onceproof.harness.scripts.script_notes import judged_by, order_note
from onceproof.harness.scripts.special_records import (
    Specials,
    clock_waits,
    noted_timers,
    specials_of,
    timer_lengths,
)
from onceproof.harness.scripts.sql.tables_on_trial import TableSource, table_pool
from onceproof.harness.scripts.variations import (
    MOST_RECORDS,
    draw_records,
    draw_special_records,
    first_records,
)
from onceproof.harness.systems.job_configuration import HONOURED
from onceproof.harness.systems.simulation.comparison_runs import recorded_checkpoints
from onceproof.harness.systems.simulation.stopping import Stopped, stopped_in_time
from onceproof.harness.systems.simulation.world import World

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.engine.api.job_description import JobDescription

_SPECIAL: Final = 0.3
"""In how many scenarios records have extreme values, or times at boundaries."""
_SIZES: Final = (2, 3)
_PAIRED: Final = {PartitionerKind.FORWARD, PartitionerKind.RESCALE}
_TIMED_TRIALS: Final = 3
"""How many records at the boundaries of timers are tried, to find out whether they determine the rows."""


class ScriptFamily:
    """The job of a script.

    Args:
        path: the file.
        said: what its address says of it behind the question mark.
        earlier: the version that it replaces; it reads the same records, and the same pickled values.
        has_real_ends: whether sources and sinks of the script's own run for real.
    """

    generator_version = 1
    record_schema = row_schema = oracle_sql = ""

    def __init__(
        self, path: Path, said: str = "", earlier: ScriptFamily | None = None, *, has_real_ends: bool = True
    ) -> None:
        self.path, self.said = path, said
        self.oracle_file = str(path)
        """The user's own file, as tracebacks name it."""
        self._job, samples, self._arguments = said_of(path, said)
        self.name = script_name(path, self._job)
        module_name = "" if earlier is None else earlier.module_name
        self._script = Script(path, self._arguments, self._job, module_name)
        self._earlier, self._has_real_ends = earlier, has_real_ends
        self._calm = CalmRuns(self)
        """Those of the program as it is, which judge edited twins as well."""
        self.pools = self._find_pools(samples)
        self._is_single = False
        """Whether each operator has one subtask, without which its rows depend on parallelism."""
        self._real = RealSinks(self.operators, path.absolute().parent)
        if not has_real_ends:
            self._real.replace_all("the ends of two versions may differ")
        self._look_at_graph()
        self._look_at_calm_runs()
        self._specials = self._find_specials()

    # The members of a family.

    @cached_property
    def options(self) -> FamilyOptions:
        """What follows from the job."""
        return FamilyOptions(
            declares=True,
            settles=True,
            batch=self._is_batch,
            fan_out=self._fan_out,
            waits_ms=self.waits_ms,
            calls_outside=bool(self._real.ends.sinks) or any(each.own_splits for each in self.pools.values()),
            barriers=None if self._keeps_edges else "aligned",
        )

    def generate(self, random: Random) -> Workload:
        """Draw records that the job takes."""
        records = draw_records(random, self.pools, self._is_free_of_splits, self._is_free_of_order)
        if random.random() < _SPECIAL:
            special = draw_special_records(random, records, self._specials)
            if self._takes(special):
                return Workload(special)
        if self._calm.rows(records) is None:
            records = first_records(self.pools)
        return Workload(records)

    def _takes(self, records: Records) -> bool:
        """Return whether the job ends on records, also if those of one source come before all others."""
        alone: list[Records] = []
        for name in self.pools if len(self.pools) > 1 else ():
            alone.append({split: each if source_of(split) == name else () for split, each in records.items()})
        return all(self._calm.rows(each) is not None for each in (records, *alone))

    def job(self, env: StreamExecutionEnvironment, io: JobIO) -> None:
        """Describe the job of the script, with the ends of the harness."""
        self.describe(env, io)

    def expected(self, records: Records, declared: Declared) -> Rows:
        """Return what runs without faults commit; of a part of the input, what is there."""
        if not declared.is_whole:
            return declared.rows
        determined = self.determined(sets_clocks=declared.sets_clocks)
        calm = self._calm.rows(records) if determined.is_judged or self._real.are_judged else None
        visible = Counter(declared.rows)
        if calm is None or calm == visible:
            return declared.rows

        def settle(rows: RowCounts, runs: Sequence[RowCounts]) -> RowCounts:
            return settled(rows, runs, determined.columns) if determined.is_judged else rows

        variants = partial(self._calm.variants, records, over_time=declared.sets_clocks)
        return list(self._real.expected(visible, calm, variants, settle).elements())

    def calm_rows(self, records: Records) -> RowCounts | None:
        """Return the rows of the calm run; None if it fails."""
        return self._calm.rows(records)

    def restricted_to(self, other: ScriptFamily) -> ScriptFamily:
        """Return the family with only such records over which another version is determined as well."""
        twin = copy(self)
        twin._is_free_of_splits &= other._is_free_of_splits
        twin._is_free_of_order &= other._is_free_of_order
        return twin

    def determined(self, *, sets_clocks: bool) -> Determined:
        """Return what the records determine in scenarios that set clocks, or in the others."""
        return self._over_time if sets_clocks else self._at_once

    def notes(self) -> Iterator[str]:
        """Yield what a user should know before the first verdict, one sentence each."""
        yield from self._real.notes(self.pools)
        yield from self.order_notes()
        yield "judged by its own runs without faults: logic that is wrong without any fault is not seen"

    def order_notes(self) -> Iterator[str]:
        """Yield what the records do not determine."""
        if self._is_single or not self._at_once.is_all:
            wide = copy(self)
            wide._is_single = False
            judged = "each operator has one subtask here" if self._is_single else judged_by(self._at_once)
            yield wide._order_note("the order of arrival, on parallelism or on time", variants_of, judged)
        if self._at_once.is_all and not self._over_time.is_all:
            judged = f"{judged_by(self._over_time)} in scenarios that set a clock"
            later = partial(later_variants_of, waits_ms=self.waits_ms)
            yield self._order_note("how much time passes", later, judged)

    def _order_note(
        self, depends_on: str, variants: Callable[[Scenario], Iterator[Scenario]], judged: str
    ) -> str:
        calm = calm_scenario(self, self._trial_records)
        return order_note(self.operators, [calm, *variants(calm)], partial(_Tapped, self), depends_on, judged)

    @property
    def module_name(self) -> str:
        """The name of the module in which the script runs."""
        return self._script.module_name

    def edited(self, tree: ast.Module, names: Mapping[str, object]) -> ScriptFamily:
        """Return the family with another syntax tree for its script, and names that its module gets.

        It must commit what the script commits as it is.
        """
        twin = copy(self)
        if self._real.ends.sinks:
            # Their files are those of the run.
            names = {name: value for name, value in names.items() if name != "open"}
        twin._script = self._script.edited(tree, names)
        return twin

    def elsewhere(self) -> dict[str, object]:
        """Return what the client of another engine needs to run the script with the ends of the harness.

        Sources and sinks stand in the order of the script. Raises FamilyError.
        """
        sinks = sinks_of(self.operators)
        for sink in sinks:
            if sink.what is None:
                raise FamilyError(
                    f"{self.path}: nothing reads the output of {sink.name!r}, and rows leave Flink"
                    " by sinks: end it with print()"
                )
        return {
            "arguments": self._arguments,
            "job": self._job,
            "single": self._is_single,
            "sources": [
                {"prefix": split_name(name, ""), "held_as": pool.held_as, "names": pool.names}
                for name, pool in self.pools.items()
            ],
            "sinks": [sink.name for sink in sinks],
        }

    # The runs without faults.

    def _look_at_calm_runs(self) -> None:
        """Find out what the records determine. Raises FamilyError if the job fails without a fault."""
        first = first_records(self.pools)
        calm = calm_scenario(self, first)
        before = files_beside(self.path)
        with self._in_time("its job"):
            history = World(self, calm).run()
            if self._real.ends.sinks and not has_finished(history):
                self._real.replace_all(f"it fails here without a fault{error_in(history)}")
                history = World(self, calm).run()
        if not has_finished(history):
            raise FamilyError(f"{self.path}: the job fails without a fault{error_in(history)}")
        self._refuse_state_in_files(Counter(rows_at_end(history)), first, before)
        idle = World(self, calm_scenario(self, dict.fromkeys(first, ()))).run().statistics.steps
        usual = STEPS_PER_RECORD * max(1, calm.record_count())
        self._fan_out = max(1, round((history.statistics.steps - idle) / usual))
        # Few records may show no race.
        long = first_records(self.pools, repeats=True)
        repeats = self._calm.rows(long) is not None
        self._trial_records = long if repeats else first
        with noted_timers() as self._timers:
            checkpoints = recorded_checkpoints(self, calm_scenario(self, self._trial_records))
        self.waits_ms = clock_waits(self.operators, checkpoints, self._timers)
        self._calm = CalmRuns(self, self.waits_ms)
        self._at_once = self._find_determined(over_time=False)
        if not self._at_once.is_all:
            self._try_single()
        self._over_time = self._find_determined(over_time=True)
        two_splits = first_records(self.pools, 2, repeats=repeats)
        self._is_free_of_splits = self._at_once.is_all and self._calm.agree(two_splits)
        reversed_records = {split: tuple(reversed(own)) for split, own in self._trial_records.items()}
        self._is_free_of_order = self._at_once.is_all and self._calm.agree(reversed_records)

    def _find_determined(self, *, over_time: bool) -> Determined:
        records = self._trial_records
        calm = self._calm.rows(records)
        runs = [run for run in (calm, *self._calm.variants(records, over_time=over_time)) if run is not None]
        if over_time and self._real.ends.sinks:
            self._look_at_sinks(runs)
        return determined_by([by_place(run)[""] for run in runs], has_windows(self.operators))

    def _try_single(self) -> None:
        """Run each operator with one subtask, if the records then determine all."""
        self._set_single(True)
        found = self._find_determined(over_time=False)
        if found.is_all:
            self._at_once = found
        else:
            self._set_single(False)

    def _set_single(self, is_single: bool) -> None:
        self._is_single = is_single
        self._calm = CalmRuns(self, self.waits_ms)
        self._look_at_graph()

    def _look_at_sinks(self, runs: Sequence[RowCounts]) -> None:
        """Find out what sinks write that run for real. Raises FamilyError if one loses rows."""
        records = self._trial_records
        world = World(self, calm_scenario(self, records))
        world.run()
        self._real.look_at(cast(Outside, world.external.outside), runs)
        lost = self._real.lost_tail(
            lambda length: (
                self._calm.rows({split: own[:length] for split, own in records.items()}) or Counter()
            )
        )
        if lost:
            raise FamilyError(f"{self.path}: {lost}")

    def _find_specials(self) -> dict[str, Specials | None]:
        timers_ms = timer_lengths(self._timers.event) if self._at_once.is_all else ()
        specials = self._specials_with(timers_ms)
        if timers_ms and not self._are_determined_with(specials):
            specials = self._specials_with(())
        return specials

    def _specials_with(self, timers_ms: Sequence[int]) -> dict[str, Specials | None]:
        none = dict.fromkeys(first_records(self.pools), ())

        def rows_of_one(name: str, held: RecordValue) -> int:
            rows = rows_of(self, calm_scenario(self, {**none, split_name(name, 0): ((0, held),)}))
            return 0 if rows is None else rows.total()

        return {
            source.name: None
            if self.pools[source.name].own_splits
            else specials_of(
                self.operators, source, self.pools[source.name], partial(rows_of_one, source.name), timers_ms
            )
            for source in sources_of(self.operators)
        }

    def _are_determined_with(self, specials: Mapping[str, Specials | None]) -> bool:
        """Return whether runs without faults agree where timers are due just as records come."""
        times = {name: special and special._replace(values={}) for name, special in specials.items()}
        return all(
            self._calm.agree(draw_special_records(Random(seed), self._trial_records, times))
            for seed in range(_TIMED_TRIALS)
        )

    @contextmanager
    def _in_time(self, what: str) -> Iterator[None]:
        """Raise FamilyError where the user's code does not return, or would end this process."""
        try:
            with stopped_in_time(self.oracle_file):
                yield
        except Stopped as stopped:
            does = stopped.anomaly if stopped.is_exit else f"does not return: {stopped.anomaly}"
            raise FamilyError(f"{self.path}: {what} {does}{stopped.place}") from None

    def _refuse_state_in_files(self, rows: RowCounts, records: Records, before: Mapping[Path, int]) -> None:
        """Raise FamilyError if a second run commits other rows, and a file has changed that it may read."""
        again = self._calm.rows(records)
        changed = sorted(path for path, time in files_beside(self.path).items() if before.get(path) != time)
        if again is None or again == rows or not changed:
            return
        here, there = rows - again, again - rows
        first, second = [next(iter(sorted(map(repr, each))), "no such row") for each in (here, there)]
        raise FamilyError(
            f"{self.path}: state outlives the program in {changed[0]}, where no checkpoint holds it: a"
            f" second run on the same records commits {second} where the first one commits {first};"
            " keep it in Flink state"
        )

    # The job.

    def _find_pools(self, samples: Mapping[str, Path]) -> dict[str, Pool]:
        with self._in_time("the program"):
            description = self._script.describe().description
        self.operators: Sequence[StreamNode] = description.operators
        """Those of the job as the script describes it, to be looked at only."""
        mode = description.get_configuration().get(RUNTIME_MODE)
        self._is_batch = str(mode).upper() == "BATCH"
        sources = sources_of(self.operators)
        names = [source.name for source in sources]
        inherited = {} if self._earlier is None else self._earlier.pools
        check_samples(self.path, samples, [*names, *inherited])
        pools = {}
        for name, node, source in sources:
            kind = node.output_type
            has_splits = not node.parallelism_is_fixed
            if isinstance(source, TableSource) and name not in inherited:
                pools[name] = table_pool(source, samples.get(name), has_splits=has_splits)
                continue
            origin = "of the program itself"
            own_splits: dict[str, int] = {}
            if name in inherited:
                own = None if name in samples else local_records(name, source)
                # The same values are of the classes of this version.
                is_same = own is not None and repr(own) == repr([*inherited[name].records])
                has_splits = inherited[name].has_splits
                pools[name] = (
                    pool_of(own or (), origin, has_splits=has_splits) if is_same else inherited[name]
                )
                continue
            if name in samples:
                records, origin = sampled_records(samples[name], kind), f"of {samples[name].name}"
            else:
                found = None
                if self._has_real_ends:
                    found, own_splits = own_records(source, self.path.absolute().parent, MOST_RECORDS)
                if found is None:
                    found, origin = known_records(self.path, name, source, kind)
                records = found
            has_splits = has_splits and not own_splits
            pools[name] = pool_of(records, origin, has_splits=has_splits, own_splits=own_splits)
        return pools

    def described_as_written(self) -> JobDescription:
        """Return the job with the parallelism that the script gives it; a scenario has its own."""
        return self._script.describe(Configuration()).description

    def describe(
        self,
        env: StreamExecutionEnvironment,
        io: JobIO,
        tapped: int | None = None,
        ids: Identities | None = None,
    ) -> None:
        """Describe the job; ``tapped`` is the number of an operator whose output is written alone."""
        description = self._script.describe().description
        for node in description.operators if self._is_single else ():
            node.parallelism = 1
        build(env, io, description.operators, self.pools, tapped, self._real.ends, ids)
        given, own = env.get_configuration(), description.get_configuration()
        for option in HONOURED:
            # How often watermarks come is the scenario's, unless they never do.
            if own.is_set(option) and (option is not AUTO_WATERMARK_INTERVAL or not own.get(option)):
                given.set(option, own.get(option))
        given.set(ALLOW_PICKLED_STATE, True)

    def _look_at_graph(self) -> None:
        """Find out which vertices the job has, and which of them have the parallelism of the scenario."""
        calm = calm_scenario(self, first_records(self.pools))
        graphs = [World(self, replace(calm, parallelism=size)).job.build_graph() for size in (1, *_SIZES)]
        single, *sizes = [{vertex.name: vertex.parallelism for vertex in graph.vertices} for graph in graphs]
        # Faults of sinks strike the last vertex.
        vertices = sorted(graphs[-1].vertices, key=lambda vertex: not vertex.outputs)
        self.tasks: Vertices = {
            vertex.name: "keyed"
            if [each.get(vertex.name) for each in sizes] == [*_SIZES]
            else vertex.parallelism
            for vertex in vertices
        }
        sources = [graphs[-1].vertices[edge.source] for vertex in vertices for edge in vertex.inputs]
        edges = [edge.partitioner.kind for vertex in vertices for edge in vertex.inputs]
        self.mixes: bool = any(
            source.parallelism > 1 and kind is not PartitionerKind.FORWARD
            for source, kind in zip(sources, edges, strict=True)
        )
        # An edge to an operator of one subtask is none where the other one has one as well: both are chained.
        self._keeps_edges = single.keys() == sizes[0].keys() and not _PAIRED & {*edges}


class _Tapped:
    """The job of a script that writes what one operator puts out."""

    def __init__(self, family: ScriptFamily, number: int) -> None:
        self._family, self._number = family, number
        self.name, self.oracle_file, self.options = family.name, family.oracle_file, family.options

    def job(self, env: StreamExecutionEnvironment, io: JobIO) -> None:
        self._family.describe(env, io, self._number)
