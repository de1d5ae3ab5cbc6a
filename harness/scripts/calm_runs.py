"""What a script's job commits where nothing goes wrong: once in the calmest way, then in variants.

Rules:

- The calm run has one subtask for each operator, aligned barriers, a fair schedule and no request.
- The variants differ in what no program decides: parallelism, schedule, buffers, barriers, how often
  checkpoints and watermarks come, how much time passes. None has a fault, a restart or a rescale.
- What all of them agree on is determined by the records. A row is judged by the columns on which they agree,
  as multisets; by all columns if the runs are equal.
- Some let an hour pass, a day, or as much as the job's state and timers wait. A job whose rows depend on
  that is judged by the others where no clock is set: a run takes seconds, and a minute passes in one.
- A run that fails, or does not end, has no rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from onceproof.harness.generation.drawn_times import HOUR_MS, LONGEST_MS
from onceproof.harness.model.family import Family, Records
from onceproof.harness.model.history import (
    ERROR,
    JOB_FAILED,
    TASK_FAILED,
    History,
    Row,
    rows_at_end,
)
from onceproof.harness.model.job_settings import CheckpointMode
from onceproof.harness.model.scenario import Fault, Scenario, Schedule, most_steps
from onceproof.harness.model.step_limits import ample_horizon, ample_timeout_ms
from onceproof.harness.systems.simulation.world import World

RowCounts: TypeAlias = Counter[Row]
_LARGE_BUFFER: Final = 40
_CHECKPOINTS_MS: Final = (1, 3, 10)
MINUTE_MS: Final = 60_000
_PLACES: Final = (0.5, 1.0, 1.5)
"""Where much time passes: state that is needed before and after it must be there."""
_MOST_KEPT: Final = 2_000
_MOST_VARIANTS: Final = 100
_UNIFORM: Final = 8
"""How many variants have a schedule of chance at each parallelism."""


def calm_scenario(family: Family, records: Records, starts_at_ms: int = 0) -> Scenario:
    """Return the calmest scenario over some records.

    Args:
        starts_at_ms: what the wall clock shows at its start.
    """
    return _limited(
        Scenario(
            family=family.name,
            generator_version=family.generator_version,
            seed=None,
            parameters={},
            records={split: tuple(own) for split, own in records.items()},
            parallelism=1,
            max_parallelism=8,
            source_parallelism=0,
            sink_parallelism=0,
            channel_capacity=4,
            checkpoint_interval_ms=100,
            checkpoint_timeout_ms=1,
            tolerable_failures=1_000_000,
            retained=1,
            restart_delay_ms=1,
            faults=(),
            schedule=Schedule(),
            step_budget=1,
            started_ms=starts_at_ms or msgspec.UNSET,
        )
    )


def variants_of(calm: Scenario) -> Iterator[Scenario]:
    """Yield scenarios over the same records that differ in what no program decides."""
    for parallelism in (2, 3):
        wide = replace(calm, parallelism=parallelism)
        yield _limited(wide)
        for seed in range(1, 1 + _UNIFORM):
            interval = 1 if seed % 2 else 200
            yield _limited(replace(wide, schedule=Schedule("uniform", seed), watermark_interval_ms=interval))
        yield _limited(replace(wide, mode=CheckpointMode("unaligned"), schedule=Schedule("uniform", 1)))
    yield _limited(replace(calm, buffer_records=3))
    # A job ends with its last checkpoint: what waits in processing time, waits no longer.
    for interval in _CHECKPOINTS_MS:
        yield _limited(replace(calm, buffer_records=_LARGE_BUFFER, checkpoint_interval_ms=interval))
    for interval in (1, 10):
        yield _limited(replace(calm, watermark_interval_ms=interval))
    yield _after(calm, MINUTE_MS)


def later_variants_of(calm: Scenario, waits_ms: Sequence[int] = ()) -> Iterator[Scenario]:
    """Yield scenarios over the same records in which much time passes between two of them.

    Args:
        waits_ms: how long the job's state and timers wait.
    """
    ends_ms = [ms + just for ms in waits_ms for just in (0, 1)]
    for passed_ms in dict.fromkeys((HOUR_MS, LONGEST_MS, *ends_ms)):
        for place in _PLACES:
            yield _after(calm, passed_ms, place)


def _after(calm: Scenario, passed_ms: int, place: float = 1.0) -> Scenario:
    """Return a scenario in which time passes; ``place`` is in records of two operators each."""
    nth = max(1, round(place * calm.record_count()))
    passes = Fault("clock_ahead", "element", occurrence=nth, delay=passed_ms)
    return _limited(replace(calm, faults=(passes,)))


def _limited(scenario: Scenario) -> Scenario:
    """Return a scenario with all the steps that one may have: a job may make many records of one."""
    schedule = scenario.schedule
    if schedule.kind != "fair":
        scenario = replace(scenario, schedule=replace(schedule, horizon=ample_horizon(scenario)))
    return replace(
        scenario,
        checkpoint_timeout_ms=10 * ample_timeout_ms(scenario),
        step_budget=most_steps(scenario.record_count()),
    )


class CalmRuns:
    """The rows of a family's runs without faults, kept by their records, as shrinking asks again.

    Args:
        family: the one whose job runs.
        waits_ms: how long its state and timers wait in processing time.
    """

    def __init__(self, family: Family, waits_ms: Sequence[int] = ()) -> None:
        self._family, self._waits_ms = family, waits_ms
        self._rows: dict[tuple[object, ...], RowCounts | None] = {}
        self._variants: dict[tuple[object, ...], list[RowCounts]] = {}

    def rows(self, records: Records, starts_at_ms: int = 0) -> RowCounts | None:
        """Return the rows of the calm run; None if the job fails, or does not end.

        Args:
            starts_at_ms: what the wall clock shows at the start, on which rows may depend.
        """
        key = (starts_at_ms, *key_of(records))
        if key not in self._rows:
            if len(self._rows) >= _MOST_KEPT:
                self._rows.clear()
            self._rows[key] = rows_of(self._family, calm_scenario(self._family, records, starts_at_ms))
        return self._rows[key]

    def variants(self, records: Records, *, over_time: bool, starts_at_ms: int = 0) -> list[RowCounts]:
        """Return the rows of the variants that have some.

        Args:
            over_time: whether those count in which much time passes.
            starts_at_ms: what the wall clock shows at the start.
        """
        found = []
        later = partial(later_variants_of, waits_ms=self._waits_ms)
        for name, variants in (("at once", variants_of), ("later", later)):
            if name == "later" and not over_time:
                continue
            key = (name, starts_at_ms, key_of(records))
            if key not in self._variants:
                if len(self._variants) >= _MOST_VARIANTS:
                    self._variants.clear()
                calm = calm_scenario(self._family, records, starts_at_ms)
                runs = [rows_of(self._family, variant) for variant in variants(calm)]
                self._variants[key] = [run for run in runs if run is not None]
            found += self._variants[key]
        return found

    def agree(self, records: Records) -> bool:
        """Return whether all have the same rows, wherever no clock is set."""
        calm = self.rows(records)
        return calm is not None and all(run == calm for run in self.variants(records, over_time=False))


def key_of(records: Records) -> tuple[object, ...]:
    """Return a key for records, which is the same for those that JSON has made lists of."""
    return tuple([(split, tuple(map(tuple, own))) for split, own in records.items()])


def rows_of(family: Family, scenario: Scenario) -> RowCounts | None:
    """Return the rows of a run without faults; None if the job fails or does not end."""
    history = World(family, scenario).run()
    return Counter(rows_at_end(history)) if has_finished(history) else None


def has_finished(history: History) -> bool:
    """Return whether a run ended in its first attempt."""
    return history.statistics.attempts == 1 and history.has_finished


def error_in(history: History) -> str:
    """Return the first error of a run, as the end of a sentence; "": there is none."""
    for _, kind, _, payload in history.events:
        if kind in (TASK_FAILED, JOB_FAILED):
            return f": {payload['cause']}"
        if kind == ERROR:
            return f": {payload['type']}: {payload['text']}"
    return ""


class Determined(NamedTuple):
    """What of the rows is determined by the records."""

    columns: Sequence[int] | None
    """Those on which runs without faults agree; None: the runs are equal."""
    is_judged: bool
    """Whether rows are judged, by these columns."""

    @property
    def is_all(self) -> bool:
        """Whether the records determine all."""
        return self.columns is None


def determined_by(runs: Sequence[RowCounts], has_windows: bool) -> Determined:
    """Return what runs without faults agree on.

    Args:
        has_windows: whether rows may come again where records were late.
    """
    if all(run == runs[0] for run in runs):
        return Determined(None, is_judged=True)
    columns = agreed_columns(runs)
    return Determined(columns or (), is_judged=columns is not None and not has_windows)


def agreed_columns(runs: Sequence[RowCounts]) -> tuple[int, ...] | None:
    """Return the columns on which runs agree, as multisets; None if even their numbers of rows differ."""
    widths = {len(row) for run in runs for row in run}
    if len({run.total() for run in runs}) > 1:
        return None
    agreed: tuple[int, ...] = ()
    for column in range(min(widths, default=0)):
        wider = (*agreed, column)
        first, *others = [_projected(run, wider) for run in runs]
        if all(other == first for other in others):
            agreed = wider
    return agreed


def settled(visible: RowCounts, runs: Sequence[RowCounts], most: Sequence[int] | None = None) -> RowCounts:
    """Return the rows that a run should have committed, as far as runs without faults determine them.

    Args:
        visible: what the run has committed.
        runs: what runs without faults have; the calm one comes first.
        most: the columns on which runs on other records agree, which differ: few runs may agree by chance;
            None: they do not differ. Then records on which runs do differ are not judged: a restore, which no
            run without faults has, may show more than these do.
    """
    calm = runs[0]
    if any(run == visible for run in runs):
        return visible
    if most is None:
        return calm if all(run == calm for run in runs) else visible
    columns = agreed_columns(runs)
    if columns is None:
        return visible
    columns = tuple([column for column in columns if column in most])
    wanted = _projected(calm, columns)
    rows: RowCounts = Counter()
    for source in (visible, calm):
        for row in source.elements():
            shown = tuple([row[column] for column in columns if column < len(row)])
            if wanted[shown] > 0:
                wanted[shown] -= 1
                rows[row] += 1
    return rows


def _projected(rows: RowCounts, columns: Sequence[int]) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for row, count in rows.items():
        found[tuple([row[column] for column in columns if column < len(row)])] += count
    return found
