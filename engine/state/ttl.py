"""Time to live: how long state is kept after it was last written (or read), and who removes it then.

The time is processing time. A value, an element of a list, an entry of a map or an accumulator has expired
at ``now`` when ``last access + ttl <= now``. Expired state is cleared by the next access to it; state that
nobody asks for again goes by the cleanup strategies. They change when memory is given back, never what a
function with the visibility NeverReturnExpired can read.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Self

from msgspec import Struct
from msgspec.structs import replace

from onceproof.engine.durations import Duration, Time, milliseconds_of

DEFAULT_CLEANUP_SIZE: Final = 5
"""Flink's: entries that a state access looks at where nothing else is said."""
DEFAULT_COMPACTION_ENTRIES: Final = 1000
DEFAULT_COMPACTION_PERIOD: Final = Duration.of_days(30)


class IncrementalCleanupStrategy(Struct, frozen=True):
    """Each access to the state, or each record, looks at some entries and removes the expired."""

    _cleanup_size: int
    _for_every_record: bool

    def get_cleanup_size(self) -> int:
        """How many entries are looked at each time."""
        return self._cleanup_size

    def run_cleanup_for_every_record(self) -> bool:
        """Whether every record looks, and not only those that access the state."""
        return self._for_every_record


class RocksdbCompactFilterCleanupStrategy(Struct, frozen=True):
    """RocksDB's compaction drops the expired.

    The binding has no compaction filter, so the backend does the equivalent: after every
    ``query_time_after_num_entries`` accesses it looks at as many entries, going round. The period has no
    meaning then, since whatever lives is looked at as long as the state is used.
    """

    _query_time_after_num_entries: int
    _periodic_compaction_time: Duration = DEFAULT_COMPACTION_PERIOD

    def get_query_time_after_num_entries(self) -> int:
        """After how many accesses the backend looks at as many entries."""
        return self._query_time_after_num_entries

    def get_periodic_compaction_time(self) -> Duration:
        """The period as it was given."""
        return self._periodic_compaction_time


class CleanupStrategies(Struct, frozen=True):
    """Who removes expired state that nobody asks for (PyFlink: StateTtlConfig.CleanupStrategies)."""

    full_snapshot: bool = False
    incremental: IncrementalCleanupStrategy | None = None
    compaction: RocksdbCompactFilterCleanupStrategy | None = None
    is_cleanup_in_background_enabled: bool = True

    def is_cleanup_in_background(self) -> bool:
        """Whether a backend removes expired state by its own default where no strategy is given."""
        return self.is_cleanup_in_background_enabled

    def in_full_snapshot(self) -> bool:
        """Whether a full snapshot leaves expired state out."""
        return self.full_snapshot

    def in_rocksdb_compact_filter(self) -> bool:
        """Whether compaction, or what stands for it here, removes expired state."""
        return self.compaction is not None or self.is_cleanup_in_background_enabled

    def get_incremental_cleanup_strategy(self) -> IncrementalCleanupStrategy | None:
        """The strategy of a heap backend; None where it has none."""
        if self.incremental is None and self.is_cleanup_in_background_enabled:
            return IncrementalCleanupStrategy(DEFAULT_CLEANUP_SIZE, False)
        return self.incremental

    def get_rocksdb_compact_filter_cleanup_strategy(self) -> RocksdbCompactFilterCleanupStrategy | None:
        """The strategy of the RocksDB backend; None where it has none."""
        if self.compaction is None and self.is_cleanup_in_background_enabled:
            return RocksdbCompactFilterCleanupStrategy(DEFAULT_COMPACTION_ENTRIES)
        return self.compaction


class StateTtlConfig:
    """The time to live of a state (PyFlink: StateTtlConfig); made by ``StateTtlConfig.new_builder(ttl)``."""

    class UpdateType(Enum):
        """Which accesses begin the time to live anew (PyFlink: StateTtlConfig.UpdateType)."""

        Disabled = 0
        OnCreateAndWrite = 1
        OnReadAndWrite = 2

    class StateVisibility(Enum):
        """Whether expired state may still be seen (PyFlink: StateTtlConfig.StateVisibility)."""

        ReturnExpiredIfNotCleanedUp = 0
        """Once more, by the access that clears it."""
        NeverReturnExpired = 1

    class TtlTimeCharacteristic(Enum):
        """Which time counts (PyFlink: StateTtlConfig.TtlTimeCharacteristic)."""

        ProcessingTime = 0

    def __init__(
        self,
        update_type: StateTtlConfig.UpdateType,
        state_visibility: StateTtlConfig.StateVisibility,
        ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic,
        ttl: Time | Duration,
        cleanup_strategies: CleanupStrategies,
    ) -> None:
        self._update_type = update_type
        self._visibility = state_visibility
        self._time_characteristic = ttl_time_characteristic
        self._ttl = ttl
        self._cleanup = cleanup_strategies
        self.ttl_ms = milliseconds_of(ttl, "a time to live")
        if self.ttl_ms <= 0:
            raise ValueError(f"a time to live of {self.ttl_ms} ms: it must be positive")

    @staticmethod
    def new_builder(ttl: Time | Duration) -> StateTtlConfig.Builder:
        """Begin a configuration with its time to live."""
        return StateTtlConfig.Builder(ttl)

    def is_enabled(self) -> bool:
        """Whether anything expires at all."""
        return self._update_type is not StateTtlConfig.UpdateType.Disabled

    def get_update_type(self) -> StateTtlConfig.UpdateType:
        """Which accesses begin the time to live anew."""
        return self._update_type

    def get_state_visibility(self) -> StateTtlConfig.StateVisibility:
        """Whether expired state may still be seen."""
        return self._visibility

    def get_ttl(self) -> Time | Duration:
        """The time to live."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> StateTtlConfig.TtlTimeCharacteristic:
        """Which time counts."""
        return self._time_characteristic

    def get_cleanup_strategies(self) -> CleanupStrategies:
        """Who removes what nobody asks for."""
        return self._cleanup

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StateTtlConfig):
            return NotImplemented
        return self._parts() == other._parts()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"StateTtlConfig({self.ttl_ms} ms, {self._update_type.name}, {self._visibility.name})"

    def _parts(self) -> tuple[object, ...]:
        return (self.ttl_ms, self._update_type, self._visibility, self._time_characteristic, self._cleanup)

    class Builder:
        """Builds a StateTtlConfig (PyFlink: StateTtlConfig.Builder)."""

        def __init__(self, ttl: Time | Duration) -> None:
            self._ttl = ttl
            self._update_type = StateTtlConfig.UpdateType.OnCreateAndWrite
            self._visibility = StateTtlConfig.StateVisibility.NeverReturnExpired
            self._time_characteristic = StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
            self._cleanup = CleanupStrategies()

        def set_update_type(self, update_type: StateTtlConfig.UpdateType) -> Self:
            """Which accesses begin the time to live anew."""
            self._update_type = update_type
            return self

        def update_ttl_on_create_and_write(self) -> Self:
            """Only writes begin it anew: the default."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> Self:
            """Reads begin it anew as well."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

        def set_state_visibility(self, state_visibility: StateTtlConfig.StateVisibility) -> Self:
            """Whether expired state may still be seen."""
            self._visibility = state_visibility
            return self

        def return_expired_if_not_cleaned_up(self) -> Self:
            """Expired state may be seen once more."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)

        def never_return_expired(self) -> Self:
            """Expired state is never seen: the default."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic
        ) -> Self:
            """Which time counts; there is only one."""
            self._time_characteristic = ttl_time_characteristic
            return self

        def use_processing_time(self) -> Self:
            """Processing time counts."""
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)

        def cleanup_full_snapshot(self) -> Self:
            """A full snapshot leaves expired state out; what lives is not touched."""
            return self._with(full_snapshot=True)

        def cleanup_incrementally(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> Self:
            """Each access (and, if asked for, each record) looks at ``cleanup_size`` entries; for hashmap."""
            if cleanup_size < 1:
                raise ValueError(f"an incremental cleanup of {cleanup_size} entries: it must be at least 1")
            strategy = IncrementalCleanupStrategy(cleanup_size, run_cleanup_for_every_record)
            return self._with(incremental=strategy)

        def cleanup_in_rocksdb_compact_filter(
            self,
            query_time_after_num_entries: int,
            periodic_compaction_time: Duration = DEFAULT_COMPACTION_PERIOD,
        ) -> Self:
            """After every so many accesses the backend looks at as many entries; for rocksdb."""
            if query_time_after_num_entries < 1:
                raise ValueError(
                    f"a cleanup after every {query_time_after_num_entries} entries: it must be at least 1"
                )
            strategy = RocksdbCompactFilterCleanupStrategy(
                query_time_after_num_entries, periodic_compaction_time
            )
            return self._with(compaction=strategy)

        def disable_cleanup_in_background(self) -> Self:
            """No strategy but those that are asked for."""
            return self._with(is_cleanup_in_background_enabled=False)

        def set_ttl(self, ttl: Time | Duration) -> Self:
            """Replace the time to live."""
            self._ttl = ttl
            return self

        def build(self) -> StateTtlConfig:
            """The configuration.

            Raises TypeError where the time to live is no Time or Duration, ValueError where it is none.
            """
            return StateTtlConfig(
                self._update_type, self._visibility, self._time_characteristic, self._ttl, self._cleanup
            )

        def _with(self, **changes: object) -> Self:
            self._cleanup = replace(self._cleanup, **changes)
            return self
