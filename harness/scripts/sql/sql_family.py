"""A script of Flink SQL as a family: the job is its plan, the oracle the statements themselves in batch.

Rules:

- Judged are the final table of each sink and the soundness of its changelog (`changelog.py`). Which changes
  lead to the table depends on the order of arrival, so they are not compared.
- Who says what the table is: `judging.py`. Rows may be late or not (`late_rows.py`).
- Where the statements in batch and the run without faults differ, this is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from onceproof.engine.extras import SQL, require
from onceproof.engine.graph import PartitionerKind
from onceproof.engine.table.plans import InvalidPlan, Plan, UnsupportedPlan
from onceproof.engine.table.table_settings import TableSettings
from onceproof.engine.table.translation import translate
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
from onceproof.harness.model.family_places import QUERIES, check_samples, said_of, script_name
from onceproof.harness.model.scenario import InputRecord
from onceproof.harness.model.step_limits import STEPS_PER_RECORD
from onceproof.harness.scripts.calm_runs import CalmRuns, calm_scenario, error_in, has_finished
from onceproof.harness.scripts.sql import sink_tables
from onceproof.harness.scripts.sql.advice import advice, draws_chance
from onceproof.harness.scripts.sql.changelog import RowCounts
from onceproof.harness.scripts.sql.drawn_rows import RowDrawer, durations_of
from onceproof.harness.scripts.sql.drawn_values import constants_of
from onceproof.harness.scripts.sql.expiry import forgets_after_ms, lives_ms_of
from onceproof.harness.scripts.sql.flink_ends import FlinkEnds
from onceproof.harness.scripts.sql.judging import Judge
from onceproof.harness.scripts.sql.late_rows import NEVER_LATE, drops_late_rows, lateness_of
from onceproof.harness.scripts.sql.plans import plan_of
from onceproof.harness.scripts.sql.repeats import adds_up
from onceproof.harness.scripts.sql.samples import sampled_rows
from onceproof.harness.scripts.sql.spark_ends import SparkEnds
from onceproof.harness.scripts.sql.sql_ends import (
    MALFORMED,
    ScriptTables,
    looked_up_in,
    sinks_of,
    sources_of,
)
from onceproof.harness.scripts.sql.tables_on_trial import looked_up_rows
from onceproof.harness.systems.simulation.world import World
from onceproof.reports.text import counted

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.harness.scripts.sql.batch import Batch
    from onceproof.harness.scripts.sql.spark_oracle import SparkStatements

_SIZES: Final = (2, 3)
_ZONE: Final = "table.local-time-zone"
_COMPARED: Final = 20
"""In how many workloads the statements in batch are compared with runs without faults."""
_MOST_LATE: Final = 64
"""In how many ways rows of a table may be late, if there is one such table."""
_FEW_LATE: Final = 16
"""In how many those of each, if there are several."""
_TRIALS: Final = 3
"""How many workloads are tried to find out whether the job takes them."""


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
            self._lives_ms = min(lives_ms_of(plan, options), default=0)
            """For how long the state lives that expires first; 0: none does."""
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
        self._let_be_late()
        self._judge = Judge(
            plan,
            self.sinks,
            self._drawers,
            self._looked_up,
            self._batch,
            self._calm,
            lives_ms=self._lives_ms,
            repeats=self._repeats,
        )
        self._look_at_graph()
        self._look_at_calm_runs()

    # The members of a family.

    @cached_property
    def options(self) -> FamilyOptions:
        """What follows from the job."""
        return FamilyOptions(
            declares=True,
            settles=True,
            jobs={QUERIES: _is_run_by_its_statements},
            fan_out=self._fan_out,
            rests_ms=forgets_after_ms(self.plan),
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
        return self._judge.judgement(records, declared).rows if declared.is_whole else declared.rows

    def judged_by(self, records: Records, declared: Declared) -> str:
        """Return who says what a run should leave."""
        return self._judge.judgement(records, declared).by

    @cached_property
    def draws_chance(self) -> bool:
        """Whether two runs of one scenario may differ."""
        return draws_chance(self.plan)

    @property
    def shown_columns(self) -> tuple[str, ...]:
        """The names of the cells of a row; none where sinks have different ones."""
        first, *others = self.sinks.values()
        return () if others or first.sink.tag is not None else first.shown_columns

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
        given, possible = self._judge.rows_at_end(records), self._judge.tables(records)
        if given is None or not all(possible.values()):
            return None
        found = sink_tables.final_tables(self.sinks, Counter(rows))
        if all(found[name] in tables for name, tables in possible.items()) is is_wrong:
            # Only Python judges changelogs, and tables that DuckDB does not.
            return None
        shown = {
            name: tables[0] if len(tables) > 1 and not is_wrong else found[name]
            for name, tables in possible.items()
        }
        return self.in_spark.records_of(given), self.in_spark.rows_of(shown)

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

    def may_expire(self, declared: Declared) -> bool:
        """Return whether state may be gone in a run."""
        return self._judge.may_expire(declared)

    def on_spark_streams(self) -> SparkEnds:
        """Return the ends of the job on Structured Streaming. Raises FamilyError."""
        statements = self._planned.statements
        if statements is None:
            raise FamilyError(f"{self.path}: Structured Streaming runs statements, and a plan has none")
        require("a script of SQL on Structured Streaming", SQL)
        from onceproof.harness.scripts.sql.spark_stream import streamed_script

        script = streamed_script(self.path, statements, self._all_read, self.sinks, self._reason)
        return SparkEnds(script, self.sinks)

    def notes_on(self, system: str) -> Iterator[str]:
        """Yield what is different on another engine, one sentence each."""
        if system == QUERIES and any(table.watermark is not None for table in self.sources.values()):
            yield (
                f"{system}: no row is late, as Spark's one watermark for all splits would drop rows that"
                " Flink keeps: its delay is lengthened where that is needed"
            )

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
        if self._planned.statements is not None:
            yield from self._planned.statements.said
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
        if self._lives_ms:
            yield "state has a time to live: a scenario that sets clocks as far is not judged"
        for name, drawer in self._drawers.items():
            if drawer.may_be_late:
                yield (
                    f"source {name}: some changes may be late, and the plan drops late rows: what they matter"
                    " to is judged only where it is as in a run without faults"
                )
            elif drawer.lateness:
                unknown = [sink for sink, each in drawer.lateness.items() if each is None]
                but = f", and {', '.join(unknown)} is not judged then" if unknown else ""
                yield f"source {name}: some rows may be late; each table that they may leave is right{but}"
            elif drawer.stays_on_time:
                yield f"source {name}: no row is late, as no batch says what late ones leave"
        workloads = [self._draw(Random(seed)) for seed in range(_COMPARED)]
        if difference := self._judge.difference(workloads):
            yield difference

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

    def _let_be_late(self) -> None:
        """Let rows be late of tables of which it is known for some sink what becomes of those."""
        late = []
        for name, drawer in self._drawers.items():
            if drawer.may_be_late:
                kinds = lateness_of(self.plan, name, self._settings)
                drawer.mattering_to = frozenset([sink for sink in kinds if kinds[sink] is not NEVER_LATE])
            if self._batch is not None and self._batch.takes_late_rows and drawer.has_watermarks:
                is_windowed = name in self._batch.windowed
                found = {
                    sink: each
                    if each is not None and (not each.is_dropped or each.is_by_window == is_windowed)
                    else None
                    for sink, each in lateness_of(self._planned.plan, name, self._settings).items()
                }
                if any(each is not None and each.is_dropped for each in found.values()):
                    drawer.lateness = found
                    late.append(drawer)
        for drawer in late:
            drawer.most_inputs = _MOST_LATE if len(late) == 1 else _FEW_LATE

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


def _is_run_by_its_statements(records: object, io: object) -> None:
    """Stand in for the function of a family: the driver runs the statements themselves."""
    raise FamilyError("the query of a script is in its statements")


def _said(error: Exception) -> str:
    """Return an error as the end of a line."""
    if isinstance(error, UnsupportedPlan | InvalidPlan):
        return " ".join(str(error).split())
    return f"it is no compiled plan: {type(error).__name__}: {' '.join(str(error).split())}"
