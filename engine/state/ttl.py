"""Time to live: the configuration of when keyed state expires, and how it is removed.

- The time is processing time. A value, an element of a list, an entry of a map or an accumulator has expired
  at ``now`` when ``last access + ttl <= now``.
- The next access to expired state clears it. Cleanup strategies remove state that is never accessed again.
- Strategies decide when memory is freed, never what a function with the visibility NeverReturnExpired reads.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Self

from msgspec import Struct
from msgspec.structs import replace

from onceproof.engine.durations import Duration, Time, milliseconds_of

DEFAULT_CLEANUP_SIZE: Final = 5
"""Flink's default number of entries that each access checks."""
DEFAULT_COMPACTION_ENTRIES: Final = 1000
DEFAULT_COMPACTION_PERIOD: Final = Duration.of_days(30)


class IncrementalCleanupStrategy(Struct, frozen=True):
    """Each access to the state, or each record, checks some entries and removes the expired ones.

    PyFlink: StateTtlConfig.IncrementalCleanupStrategy.
    """

    _cleanup_size: int
    _for_every_record: bool

    def get_cleanup_size(self) -> int:
        """Return how many entries are checked each time."""
        return self._cleanup_size

    def run_cleanup_for_every_record(self) -> bool:
        """Return whether every record triggers a check, not only an access to the state."""
        return self._for_every_record


class RocksdbCompactFilterCleanupStrategy(Struct, frozen=True):
    """Removes expired state of RocksDB in the background.

    PyFlink: StateTtlConfig.RocksdbCompactFilterCleanupStrategy. The binding has no compaction filter, so the
    backend does the equivalent: after every ``query_time_after_num_entries`` accesses it checks as many
    entries, in turn. The period has no effect.
    """

    _query_time_after_num_entries: int
    _periodic_compaction_time: Duration = DEFAULT_COMPACTION_PERIOD

    def get_query_time_after_num_entries(self) -> int:
        """Return after how many accesses the backend checks as many entries."""
        return self._query_time_after_num_entries

    def get_periodic_compaction_time(self) -> Duration:
        """Return the period, which has no effect."""
        return self._periodic_compaction_time


class CleanupStrategies(Struct, frozen=True):
    """How expired state is removed that is not accessed (PyFlink: StateTtlConfig.CleanupStrategies)."""

    full_snapshot: bool = False
    incremental: IncrementalCleanupStrategy | None = None
    compaction: RocksdbCompactFilterCleanupStrategy | None = None
    is_cleanup_in_background_enabled: bool = True

    def is_cleanup_in_background(self) -> bool:
        """Return whether a backend uses its default strategy if none is given."""
        return self.is_cleanup_in_background_enabled

    def in_full_snapshot(self) -> bool:
        """Return whether a full snapshot leaves expired state out."""
        return self.full_snapshot

    def in_rocksdb_compact_filter(self) -> bool:
        """Return whether compaction (here: its equivalent) removes expired state."""
        return self.compaction is not None or self.is_cleanup_in_background_enabled

    def get_incremental_cleanup_strategy(self) -> IncrementalCleanupStrategy | None:
        """Return the strategy of the hashmap backend, or None."""
        if self.incremental is None and self.is_cleanup_in_background_enabled:
            return IncrementalCleanupStrategy(DEFAULT_CLEANUP_SIZE, False)
        return self.incremental

    def get_rocksdb_compact_filter_cleanup_strategy(self) -> RocksdbCompactFilterCleanupStrategy | None:
        """Return the strategy of the RocksDB backend, or None."""
        if self.compaction is None and self.is_cleanup_in_background_enabled:
            return RocksdbCompactFilterCleanupStrategy(DEFAULT_COMPACTION_ENTRIES)
        return self.compaction


class StateTtlConfig:
    """The time to live of a state (PyFlink: StateTtlConfig).

    Build one with ``StateTtlConfig.new_builder(ttl)``.

    Raises:
        TypeError: ``ttl`` is no Time or Duration.
        ValueError: ``ttl`` is not positive.
    """

    class UpdateType(Enum):
        """Which accesses restart the time to live (PyFlink: StateTtlConfig.UpdateType)."""

        Disabled = 0
        OnCreateAndWrite = 1
        OnReadAndWrite = 2

    class StateVisibility(Enum):
        """Whether an access may return expired state (PyFlink: StateTtlConfig.StateVisibility)."""

        ReturnExpiredIfNotCleanedUp = 0
        """The access that clears expired state returns it once more."""
        NeverReturnExpired = 1

    class TtlTimeCharacteristic(Enum):
        """The time domain of the time to live (PyFlink: StateTtlConfig.TtlTimeCharacteristic)."""

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
        """Return a builder of a configuration with this time to live."""
        return StateTtlConfig.Builder(ttl)

    def is_enabled(self) -> bool:
        """Return whether the state expires at all."""
        return self._update_type is not StateTtlConfig.UpdateType.Disabled

    def get_update_type(self) -> StateTtlConfig.UpdateType:
        """Return which accesses restart the time to live."""
        return self._update_type

    @property
    def returns_expired(self) -> bool:
        """Whether a read returns an expired value once, if nothing has removed it."""
        return self._visibility is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp

    def get_state_visibility(self) -> StateTtlConfig.StateVisibility:
        """Return whether an access may return expired state."""
        return self._visibility

    def get_ttl(self) -> Time | Duration:
        """Return the time to live."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> StateTtlConfig.TtlTimeCharacteristic:
        """Return the time domain of the time to live."""
        return self._time_characteristic

    def get_cleanup_strategies(self) -> CleanupStrategies:
        """Return how expired state is removed that is never accessed again."""
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
            """Set which accesses restart the time to live."""
            self._update_type = update_type
            return self

        def update_ttl_on_create_and_write(self) -> Self:
            """Let only writes restart the time to live: the default."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> Self:
            """Let reads restart the time to live as well."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

        def set_state_visibility(self, state_visibility: StateTtlConfig.StateVisibility) -> Self:
            """Set whether an access may return expired state."""
            self._visibility = state_visibility
            return self

        def return_expired_if_not_cleaned_up(self) -> Self:
            """Let the access that clears expired state return it once more."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)

        def never_return_expired(self) -> Self:
            """Let no access return expired state: the default."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic
        ) -> Self:
            """Set the time domain; ProcessingTime is the only one."""
            self._time_characteristic = ttl_time_characteristic
            return self

        def use_processing_time(self) -> Self:
            """Set the time domain to processing time: the default."""
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)

        def cleanup_full_snapshot(self) -> Self:
            """Leave expired state out of full snapshots; the running job's state is not changed."""
            return self._with(full_snapshot=True)

        def cleanup_incrementally(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> Self:
            """Let each access check some entries and remove the expired ones; for the hashmap backend.

            Args:
                cleanup_size: how many entries are checked each time, at least 1.
                run_cleanup_for_every_record: whether every record triggers a check as well.

            Raises:
                ValueError: ``cleanup_size`` is less than 1.
            """
            if cleanup_size < 1:
                raise ValueError(f"an incremental cleanup of {cleanup_size} entries: it must be at least 1")
            strategy = IncrementalCleanupStrategy(cleanup_size, run_cleanup_for_every_record)
            return self._with(incremental=strategy)

        def cleanup_in_rocksdb_compact_filter(
            self,
            query_time_after_num_entries: int,
            periodic_compaction_time: Duration = DEFAULT_COMPACTION_PERIOD,
        ) -> Self:
            """Let the RocksDB backend check entries in the background and remove the expired ones.

            Args:
                query_time_after_num_entries: after this number of accesses, as many entries are checked; at
                    least 1.
                periodic_compaction_time: accepted for PyFlink's sake, without effect.

            Raises:
                ValueError: ``query_time_after_num_entries`` is less than 1.
            """
            if query_time_after_num_entries < 1:
                raise ValueError(
                    f"a cleanup after every {query_time_after_num_entries} entries: it must be at least 1"
                )
            strategy = RocksdbCompactFilterCleanupStrategy(
                query_time_after_num_entries, periodic_compaction_time
            )
            return self._with(compaction=strategy)

        def disable_cleanup_in_background(self) -> Self:
            """Use no strategy besides those that this builder sets."""
            return self._with(is_cleanup_in_background_enabled=False)

        def set_ttl(self, ttl: Time | Duration) -> Self:
            """Replace the time to live."""
            self._ttl = ttl
            return self

        def build(self) -> StateTtlConfig:
            """Return the configuration.

            Raises:
                TypeError: the time to live is no Time or Duration.
                ValueError: the time to live is not positive.
            """
            return StateTtlConfig(
                self._update_type, self._visibility, self._time_characteristic, self._ttl, self._cleanup
            )

        def _with(self, **changes: object) -> Self:
            self._cleanup = replace(self._cleanup, **changes)
            return self
