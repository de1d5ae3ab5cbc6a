"""A script of Flink SQL as a family: the job is its plan, the oracle the statements themselves in batch.

Rules:

- Judged are the final table of each sink and the soundness of its changelog (`changelog.py`). Which changes
  lead to the table depends on the order of arrival, so they are not compared.
- The table is that of DuckDB over all rows at once (`batch.py`); where the statements have no exact
  translation, that of the run without faults, as for a program of PyFlink. ``judge`` says which.
- Rows may be late or not (`late_rows.py`), so several tables may be right.
- Where the two differ without any fault, the statements mean something else to DuckDB, as where rows tie, or
  the job's logic is wrong: this is said, and the run without faults judges.
- Where a run differs from them and runs without faults differ among themselves, the records do not determine
  the table, and it is not judged. A changelog must be sound where that of the calm run is.
- State with a time to live may be gone after the clock was set: then nothing is judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from onceproof.engine.extras import SQL, require
from onceproof.engine.graph import PartitionerKind
from onceproof.engine.table.plans import InvalidPlan, Plan, UnsupportedPlan
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.translation import translate
from onceproof.engine.table.values import Row
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
from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.model.split_names import source_of
from onceproof.harness.model.step_limits import STEPS_PER_RECORD
from onceproof.harness.scripts.calm_runs import CalmRuns, calm_scenario, error_in, has_finished, key_of
from onceproof.harness.scripts.sql import sink_tables
from onceproof.harness.scripts.sql.advice import advice
from onceproof.harness.scripts.sql.changelog import RowCounts
from onceproof.harness.scripts.sql.drawn_rows import RowDrawer, durations_of, rows_left
from onceproof.harness.scripts.sql.drawn_values import constants_of
from onceproof.harness.scripts.sql.flink_ends import FlinkEnds
from onceproof.harness.scripts.sql.late_rows import MaybeLate, drops_late_rows, lateness_of
from onceproof.harness.scripts.sql.plans import plan_of
from onceproof.harness.scripts.sql.repeats import adds_up
from onceproof.harness.scripts.sql.samples import sampled_rows
from onceproof.harness.scripts.sql.sql_ends import (
    MALFORMED,
    ScriptTables,
    looked_up_in,
    sinks_of,
    sources_of,
)
from onceproof.harness.scripts.sql.tables_on_trial import looked_up_rows
from onceproof.harness.systems.simulation.world import World
from onceproof.reports.notes import NO_JUDGE
from onceproof.reports.text import counted

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.harness.scripts.sql.batch import Batch
    from onceproof.harness.scripts.sql.spark_oracle import SparkStatements

_SIZES: Final = (2, 3)
_TTL: Final = "table.exec.state.ttl"
_ZONE: Final = "table.local-time-zone"
_MOST_KEPT: Final = 500
_COMPARED: Final = 20
"""In how many workloads the statements in batch are compared with runs without faults."""
_MOST_LATE: Final = 64
"""In how many ways rows of a table may be late, if there is one such table."""
_FEW_LATE: Final = 16
"""In how many those of each, if there are several."""
_TRIALS: Final = 3
"""How many workloads are tried to find out whether the job takes them."""

BY_DUCKDB: Final = "DuckDB"
BY_RUNS: Final = "its own runs without faults"


class Judgement(NamedTuple):
    """What a run should have committed."""

    rows: Rows
    by: str
    """Who says so; NO_JUDGE, and why, if the rows are those of the run."""


class SqlFamily:
    """The job of a script.

    Args:
        path: the file: a script, or the plan of one.
        said: what its address says of it behind the question mark.
        tags_sinks: whether rows bear the name of their sink where there is only one.
    """

    generator_version = 1
    record_schema = row_schema = oracle_sql = ""

    def __init__(self, path: Path, said: str = "", *, tags_sinks: bool = False) -> None:
        self.path, self.said = path, said
        self.oracle_file = str(path)
        address = said_of(path, said)
        self.name = script_name(path, address.job)
        self._planned = plan_of(path)
        plan, statements = self._planned.plan, self._planned.statements
        options = {} if statements is None else statements.options
        self._repeats = statements is not None and statements.is_at_least_once
        self._settings = TableSettings({_ZONE: "UTC", **options})
        try:
            self.sources, self.sinks = sources_of(plan), sinks_of(plan, is_tagged=tags_sinks)
            self.expires = options.get(_TTL, "0")[:1] != "0" or any(node.ttl_ms() for node in plan.nodes)
            looked_up = looked_up_in(plan)
            check_samples(path, address.samples, [*self.sources, *looked_up])
            self._drawers = self._make_drawers(address.samples)
            constants = constants_of(plan)
            self._looked_up = {
                name: looked_up_rows(table.end, address.samples.get(name), constants)
                for name, table in looked_up.items()
            }
            """By table, the rows in which others are looked up; they never change."""
            self._all_read = {**looked_up, **self.sources}
        except MALFORMED as error:
            raise FamilyError(f"{path}: {_said(error)}") from None
        self._calm = CalmRuns(self)
        self._batch, self._reason = self._find_batch()
        self._keeps_late = self._let_be_late()
        self._answers: dict[tuple[object, ...], Sequence[sink_tables.Tables]] = {}
        self._look_at_graph()
        self._look_at_calm_runs()

    # The members of a family.

    @cached_property
    def options(self) -> FamilyOptions:
        """What follows from the job."""
        return FamilyOptions(
            declares=True,
            settles=True,
            fan_out=self._fan_out,
            at_least_once="effects" if self._repeats else None,
            barriers="at_least_once" if self._repeats else "aligned" if self._has_forward_edges else None,
        )

    def generate(self, random: Random) -> Workload:
        """Draw rows for each table that the job reads."""
        return Workload(self._draw(random))

    def job(self, env: StreamExecutionEnvironment, io: JobIO) -> None:
        """Make the job of the plan, with the ends of the harness."""
        tables = ScriptTables(io, self.sources, self.sinks, self._looked_up)
        translate(self._planned.plan, tables, env, self._settings)

    def expected(self, records: Records, declared: Declared) -> Rows:
        """Return the changes that should be there; of a part of the input, those that are."""
        return self._judgement(records, declared).rows if declared.is_whole else declared.rows

    def judged_by(self, records: Records, declared: Declared) -> str:
        """Return who says what a run should leave."""
        return self._judgement(records, declared).by

    @cached_property
    def in_spark(self) -> SparkStatements:
        """What a campaign's judgement in Spark SQL needs."""
        from onceproof.harness.scripts.sql.spark_oracle import SparkStatements

        return SparkStatements(self.name, self.sources, self.sinks, self._batch)

    def for_spark(self, records: Records, rows: Rows, is_wrong: bool) -> tuple[Records, Rows] | None:
        """Return the records and rows of a run as Spark SQL judges them; None: it does not.

        Args:
            records: those of the run.
            rows: those that it has committed.
            is_wrong: whether they are wrong in Python.
        """
        given, tables = self._rows_at_end(records), self._tables(records)
        if given is None or not tables:
            return None
        found = sink_tables.final_tables(self.sinks, Counter(rows))
        if (found in tables) is is_wrong:
            # Only Python judges changelogs, and tables that DuckDB does not.
            return None
        shown = tables[0] if len(tables) > 1 and not is_wrong else found
        return self.in_spark.records_of(given), self.in_spark.rows_of(shown)

    def _judgement(self, records: Records, declared: Declared) -> Judgement:
        rows = declared.rows
        if self.expires and declared.sets_clocks:
            return Judgement(rows, f"{NO_JUDGE}a clock was set, and state has a time to live")
        if self._rows_at_end(records) is None:
            return Judgement(rows, f"{NO_JUDGE}no table has its changes")
        batch, changes = self._tables(records), sink_tables.by_sink(self.sinks, rows)
        if any(sink_tables.are_right(self.sinks, changes, each) for each in batch):
            return Judgement(rows, BY_DUCKDB)
        calm = self._calm.rows(records)
        if calm is None:
            return Judgement(rows, f"{NO_JUDGE}its run without faults fails")
        of_calm = sink_tables.final_tables(self.sinks, calm)
        if self._repeats and declared.has_restored:
            return self._repeated(rows, changes, batch or (of_calm,))
        by = BY_DUCKDB if of_calm in batch else BY_RUNS
        if of_calm not in batch and sink_tables.are_right(self.sinks, changes, of_calm):
            return Judgement(rows, by)
        if len(batch) > 1 and declared.has_restored and (declared.has_in_flight or not self._keeps_late):
            return Judgement(rows, f"{NO_JUDGE}a restore may have let late rows in")
        variants = self._calm.variants(records, over_time=declared.sets_clocks)
        right = batch if of_calm in batch else (of_calm,)
        if any(sink_tables.final_tables(self.sinks, run) not in right for run in variants):
            return Judgement(rows, f"{NO_JUDGE}its runs without faults differ")
        return Judgement(sink_tables.corrected_rows(self.sinks, rows, calm), by)

    def _repeated(
        self, rows: Rows, changes: sink_tables.Changes, tables: Sequence[sink_tables.Tables]
    ) -> Judgement:
        """Judge a run whose records may have come twice: by key, as far as that changes no table."""
        if adding := adds_up(self.plan):
            return Judgement(rows, f"{NO_JUDGE}records may have come twice, and {adding} counts them")
        missing = [sink_tables.lacked_rows(self.sinks, changes, table) for table in tables]
        return Judgement([*rows, *min(missing, key=len)], BY_DUCKDB if self._batch is not None else BY_RUNS)

    @property
    def plan(self) -> Plan:
        """The plan of its job."""
        return self._planned.plan

    def on_flink(self) -> FlinkEnds:
        """Return the ends of the job on Flink itself. Raises FamilyError."""
        if self._looked_up:
            raise FamilyError(
                f"{self.path}: rows are looked up in {min(self._looked_up)}, which Flink has not here"
            )
        statements = self._planned.statements
        options = {} if statements is None else statements.options
        return FlinkEnds(self._planned.compiled, {_ZONE: "UTC", **options}, self.sources, self.sinks)

    def calm_rows(self, records: Records) -> RowCounts | None:
        """Return the changes of the calm run; None if it fails."""
        return self._calm.rows(records)

    @property
    def judge(self) -> str:
        """Who says what should be there, as a sentence without its end."""
        if self._batch is not None:
            return "judged by the statements themselves in batch, executed by DuckDB"
        return (
            f"judged by its own runs without faults, as there is no exact translation of {self._reason}:"
            " logic that is wrong without any fault is not seen"
        )

    def notes(self) -> Iterator[str]:
        """Yield what a user should know before the first verdict, one sentence each."""
        for name, drawer in self._drawers.items():
            never = ", ".join([drawer.table.end.type.names[column] for column in sorted(drawer.never_null)])
            nulls = f"; a NULL in {never} fails the job, so there is none" if never else ""
            yield f"source {name}: {drawer.origin}{nulls}"
        for name, own in self._looked_up.items():
            yield f"table {name}: rows are looked up in {counted(len(own), 'row')}, which never change"
        for name, end in self.sinks.items():
            what = "its table" if end.sink.key is None else "its table by key"
            yield f"sink {name}: replaced by an exactly-once one; {what} and its changelog are judged"
        yield from advice(self._planned, self.sinks)
        yield f"plan: {self._planned.place}"
        if self._planned.statements is None:
            yield (
                f"options: a compiled plan keeps none of its session, so {_ZONE} is UTC, and no other is set"
                " beside those of its nodes"
            )
        yield self.judge
        if self._repeats:
            judged = "tables are judged, by key where they have one"
            if adding := adds_up(self.plan):
                judged = f"no table is judged, as {adding} counts records that come again"
            yield f"checkpoints are at least once: after a restore {judged}"
        if self.expires:
            yield "state has a time to live: a scenario that sets clocks is not judged"
        for name, drawer in self._drawers.items():
            if drawer.may_be_late:
                yield (
                    f"source {name}: its changes may be late, and the plan drops late rows: a scenario is not"
                    " judged where runs without faults differ"
                )
            elif drawer.lateness is not None:
                yield f"source {name}: some rows may be late; each table that they may leave is right"
            elif drawer.stays_on_time:
                yield f"source {name}: no row is late, as no batch says what late ones leave"
        if self._batch is not None and (difference := self._difference()):
            yield difference

    # The tables that should be there.

    def _tables(self, records: Records) -> Sequence[sink_tables.Tables]:
        """Return what each sink may hold, by the statements in batch; nothing: they do not say.

        There are several where rows may be late or not.
        """
        key = key_of(records)
        if key not in self._answers:
            if len(self._answers) >= _MOST_KEPT:
                self._answers.clear()
            self._answers[key] = self._computed(records)
        return self._answers[key]

    def _computed(self, records: Records) -> Sequence[sink_tables.Tables]:
        rows = self._rows_at_end(records)
        if rows is None or self._batch is None:
            return ()
        return self._batch.tables(rows, self._maybe_late(records)) or ()

    def _maybe_late(self, records: Records) -> list[MaybeLate]:
        """Return which of the rows of tables may be late."""
        found: list[MaybeLate] = []
        places = dict.fromkeys(self.sources, 0)
        for split, own in records.items():
            table = self.sources[source_of(split)]
            drawer = self._drawers[table.name]
            if drawer.lateness is None:
                continue
            mark = drawer.mark()
            for _, value in own:
                row = table.change_of(value)[1]
                if ends := mark.ends(row, drawer.lateness):
                    found.append(MaybeLate(table.name, places[table.name], ends))
                mark.take(row)
                places[table.name] += 1
        return found

    def _rows_at_end(self, records: Records) -> dict[str, list[Row]] | None:
        """Return the rows that the changes leave in each source; None where no table has such changes.

        That happens where a record has been left out to make a scenario smaller.
        """
        found: dict[str, list[Row]] = {name: list(own) for name, own in self._looked_up.items()}
        found |= {name: [] for name in self.sources}
        for split, own in records.items():
            table = self.sources[source_of(split)]
            changes = [table.change_of(value) for _, value in own]
            rows = rows_left(changes, table.mode, table.end.primary_key)
            if rows is None:
                return None
            found[table.name] += rows
        return found

    def _difference(self) -> str:
        """Return how the statements in batch and runs without faults differ; "": they do not."""
        differ, first, no_tables = 0, "", 0
        for seed in range(_COMPARED):
            records = self._draw(Random(seed))
            calm, rows = self._calm.rows(records), self._rows_at_end(records)
            if calm is None or rows is None or self._batch is None:
                continue
            tables, of_calm = self._tables(records), sink_tables.final_tables(self.sinks, calm)
            no_tables += not tables
            if tables and of_calm not in tables:
                differ += 1
                first = first or sink_tables.first_difference(tables[0], of_calm)
        said = []
        if differ:
            said.append(f"differ from the job's own run without faults in {differ}: {first}")
        if no_tables:
            said.append(f"cannot be executed by DuckDB in {no_tables}")
        if not said:
            return ""
        return (
            f"of {_COMPARED} workloads, the statements in batch {' and '.join(said)}; a scenario of that kind"
            " is judged by its own run without faults"
        )

    # What is found out before the first scenario.

    def _make_drawers(self, samples: Mapping[str, Path]) -> dict[str, RowDrawer]:
        plan = self._planned.plan
        durations, constants = durations_of(plan), constants_of(plan)
        drawers = {}
        for name, table in self.sources.items():
            sample = sampled_rows(samples[name], table) if name in samples else ()
            stays = drops_late_rows(plan, name)
            drawers[name] = RowDrawer(table, self._settings, durations, constants, stays, sample)
            if sample:
                drawers[name].origin = f"{counted(len(sample), 'row')} of {samples[name].name}"
        return drawers

    def _let_be_late(self) -> bool:
        """Let rows be late of tables of which it is known what becomes of those.

        Returns:
            Whether rows that were late before a restore are late after it.
        """
        late = []
        for name, drawer in self._drawers.items():
            if self._batch is not None and self._batch.takes_late_rows and drawer.has_watermarks:
                lateness = lateness_of(self._planned.plan, name, self._settings)
                if lateness is not None and lateness.is_by_window == (name in self._batch.windowed):
                    drawer.lateness = lateness
                    late.append(drawer)
        for drawer in late:
            drawer.most_inputs = _MOST_LATE if len(late) == 1 else _FEW_LATE
        return all(drawer.lateness.is_kept for drawer in late if drawer.lateness is not None)

    def _draw(self, random: Random, nulls: Mapping[str, Sequence[int]] | None = None) -> Records:
        found: dict[str, Sequence[InputRecord]] = {}
        for name, drawer in self._drawers.items():
            columns = None if nulls is None else nulls.get(name, ())
            for split, own in drawer.splits(random, columns).items():
                found[split] = tuple(own)
        return found

    def _find_batch(self) -> tuple[Batch | None, str]:
        if self._planned.statements is None:
            return None, "a plan without its statements"
        require("the oracle of a script of SQL", SQL)
        from onceproof.harness.scripts.sql.batch import batch_of
        from onceproof.harness.scripts.sql.windows import Untranslatable

        if both := self._looked_up.keys() & self.sources:
            return None, f"a table that is read and looked up, {min(both)}"
        try:
            return batch_of(self._planned.statements, self._all_read, self.sinks), ""
        except Untranslatable as reason:
            return None, str(reason)

    def _look_at_graph(self) -> None:
        """Find out which vertices the job has. Raises FamilyError for what the engine lacks."""
        calm = calm_scenario(self, {f"{name}.0": () for name in self.sources})
        sizes: list[dict[str, int]] = []
        try:
            for size in _SIZES:
                graph = World(self, replace(calm, parallelism=size)).job.build_graph()
                sizes.append({vertex.name: vertex.parallelism for vertex in graph.vertices})
        except UnsupportedPlan as error:
            raise FamilyError(f"{self.path}: {error}") from None
        except MALFORMED as error:
            raise FamilyError(f"{self.path}: {self._place_of(error)}{_said(error)}") from None
        vertices = sorted(graph.vertices, key=lambda vertex: not vertex.outputs)
        self.tasks: Vertices = {
            vertex.name: "keyed"
            if [each.get(vertex.name) for each in sizes] == [*_SIZES]
            else vertex.parallelism
            for vertex in vertices
        }
        edges = {edge.partitioner.kind for vertex in vertices for edge in vertex.inputs}
        self._has_forward_edges = bool(edges & {PartitionerKind.FORWARD, PartitionerKind.RESCALE})

    def _place_of(self, error: Exception) -> str:
        """Return which node has caused an error: the last of the first ones that cause it together."""
        plan = self._planned.plan
        calm = calm_scenario(self, {f"{name}.0": () for name in self.sources})
        for number, node in enumerate(plan.nodes, 1):
            self._planned = replace(self._planned, plan=replace(plan, nodes=plan.nodes[:number]))
            try:
                World(self, calm).job.build_graph()
            except Exception as found:
                if (type(found), str(found)) == (type(error), str(error)):
                    return f"{node.place}: "
        return ""

    def _look_at_calm_runs(self) -> None:
        """Find out what the job takes. Raises FamilyError if it fails without a fault."""
        records = self._draw(Random(0), {})
        calm = calm_scenario(self, records)
        history = World(self, calm).run()
        if not has_finished(history):
            raise FamilyError(
                f"{self.path}: the job fails without a fault{error_in(history)}; give rows that it takes with"
                f" --sample {next(iter(self.sources), 'TABLE')}=FILE"
            )
        idle = World(self, calm_scenario(self, dict.fromkeys(records, ()))).run().statistics.steps
        usual = STEPS_PER_RECORD * max(1, calm.record_count())
        self._fan_out = max(1, round((history.statistics.steps - idle) / usual))
        for name, drawer in self._drawers.items():
            if self._fails_with({name: drawer.nullable_columns}):
                drawer.never_null = {
                    column for column in drawer.nullable_columns if self._fails_with({name: [column]})
                }

    def _fails_with(self, nulls: Mapping[str, Sequence[int]]) -> bool:
        """Return whether the job fails without a fault where some columns have NULLs."""
        return any(self._calm.rows(self._draw(Random(seed), nulls)) is None for seed in range(_TRIALS))


def _said(error: Exception) -> str:
    """Return an error as the end of a line."""
    if isinstance(error, UnsupportedPlan | InvalidPlan):
        return " ".join(str(error).split())
    return f"it is no compiled plan: {type(error).__name__}: {' '.join(str(error).split())}"
