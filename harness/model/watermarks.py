"""The furthest watermarks that a job may give, from its records and its watermark strategies alone.

Rules:

- The strategies are those that the family's ``job`` names. It is built against a stand-in that records them
  and does nothing else: no operator is made and no engine runs.
- A stock strategy is its bound: the newest timestamp, less the bound, less 1 ms. A generator of the user is
  asked record by record, as if each were followed by a periodic call: no run has more watermarks.
- A split is ordered and has a generator of its own, and a subtask waits for its slowest split. So a
  watermark that precedes a record follows from the records before it in its own split. Where a strategy
  stands behind the source, the other splits count as well.
- A split that may be idle may be overtaken: the others may even end meanwhile, and so time itself.
- The strategy of a source holds for the splits that the source names, which is asked of the family's own
  source where it wraps that of the harness. Records of a split without a strategy are never late.
- Strategies are not known where the job cannot be built so, or where an assigner or generator of the user
  fails on a record: it may get other values than those of the input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from onceproof.harness.model.scenario import InputRecord, Parameter

if TYPE_CHECKING:
    from onceproof.engine.api.datastream import StreamExecutionEnvironment
    from onceproof.engine.watermarks.strategy import WatermarkStrategy
    from onceproof.harness.model.family import Family, JobIO, Records

NO_WATERMARK: Final = -(1 << 63)
MAX_WATERMARK: Final = (1 << 63) - 1


class Timed(NamedTuple):
    """A strategy, and whether the watermarks before a record follow from its own split alone."""

    strategy: WatermarkStrategy
    is_of_one_split: bool
    splits: frozenset[str] | None = None
    """Those whose records it times; None: all."""

    def times(self, split: str) -> bool:
        """Return whether the records of a split have their timestamps and watermarks from it."""
        return self.splits is None or split in self.splits

    def timestamps(self, records: Sequence[InputRecord]) -> list[int]:
        """Return the timestamp that each record has for the job."""
        assigner = self.strategy.create_timestamp_assigner()
        if assigner is None:
            return [timestamp for timestamp, _ in records]
        return [assigner.extract_timestamp(value, timestamp) for timestamp, value in records]

    def watermarks(self, records: Sequence[InputRecord]) -> list[int]:
        """Return the furthest watermark before each of some records, and after the last."""
        timestamps = self.timestamps(records)
        if self.strategy.idle_timeout_ms is not None:
            return [MAX_WATERMARK] * (len(records) + 1)
        behind = self.strategy.bound_ms
        if behind is None:
            return self._asked(records, timestamps)
        found = [NO_WATERMARK]
        for timestamp in timestamps:
            found.append(max(found[-1], timestamp - behind - 1))
        return found

    def _asked(self, records: Sequence[InputRecord], timestamps: Sequence[int]) -> list[int]:
        generator = self.strategy.create_watermark_generator(cast(Any, _Clock()))
        output = _Furthest()
        found = [NO_WATERMARK]
        for (_, value), timestamp in zip(records, timestamps, strict=True):
            generator.on_event(value, timestamp, cast(Any, output))
            generator.on_periodic_emit(cast(Any, output))
            found.append(output.watermark)
        return found


def strategies_of(
    family: Family, parameters: Mapping[str, Parameter], records: Records
) -> tuple[Timed, ...] | None:
    """Return the watermark strategies of a family's job for a workload; None if they are not known."""
    job = _Job(parameters, list(records))
    try:
        family.job(cast("StreamExecutionEnvironment", job), cast("JobIO", job))
        for strategy in job.found:
            for split, own in records.items():
                if strategy.times(split):
                    strategy.watermarks(own)
    except Exception:
        # What the family asks of its streams, or its functions of their values, is more than there is here.
        return None
    return tuple(job.found)


class _Furthest:
    """The output of a generator: keeps the furthest watermark."""

    def __init__(self) -> None:
        self.watermark = NO_WATERMARK

    def emit_watermark(self, watermark: Any) -> None:
        self.watermark = max(self.watermark, watermark.timestamp)

    def mark_idle(self) -> None:
        """Note that others may overtake this split, up to the end of the input."""
        self.watermark = MAX_WATERMARK

    def mark_active(self) -> None:
        """Do nothing."""


class _Clock:
    """The context of a generator; its time stands still, so nothing times out."""

    def get_input_activity_clock(self) -> Callable[[], int]:
        return lambda: 0


class _Job:
    """Stands for the environment, the ends and each stream of a job; records strategies."""

    source_parallelism = parallelism = sink_parallelism = 1

    def __init__(self, parameters: Mapping[str, Parameter], splits: Sequence[str]) -> None:
        self.parameters = parameters
        self.found: list[Timed] = []
        self._splits = splits

    def splits(self) -> Sequence[str]:
        """Return all splits, as each source of the harness reads them."""
        return self._splits

    def from_source(self, source: Any, watermark_strategy: Any = None, *args: Any, **kwargs: Any) -> _Job:
        """Record the strategy of a source."""
        return self._with(watermark_strategy, is_of_one_split=True, splits=frozenset(source.splits()))

    def assign_timestamps_and_watermarks(self, watermark_strategy: Any) -> _Job:
        """Record a strategy behind a source: its generators see the records of several splits."""
        return self._with(watermark_strategy, is_of_one_split=False)

    def _with(self, strategy: Any, is_of_one_split: bool, splits: frozenset[str] | None = None) -> _Job:
        if strategy is not None:
            if not is_of_one_split and strategy.create_timestamp_assigner() is not None:
                raise NotImplementedError("the values behind a source are not those of the input")
            self.found.append(Timed(strategy, is_of_one_split, splits))
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self
