"""The cache of looked-up rows (Flink: LookupCache, by the options ``lookup.*``)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final

from msgspec import Struct

from onceproof.engine.configuration.parsing import at_least
from onceproof.engine.table.connectors.registry import Options
from onceproof.engine.table.table_ends import Lookup
from onceproof.engine.table.values import Row, identity

_PARTIAL: Final = "lookup.partial-cache."


class CacheSettings(Struct, frozen=True):
    """How many rows are kept for how long; 0: without a bound."""

    max_keys: int = 0
    written_ms: int = 0
    used_ms: int = 0
    keeps_missing: bool = True


def cache_settings(options: Options) -> CacheSettings | None:
    """Return the cache that the options of a table describe; None: there is none."""
    old_keys = options.read("lookup.cache.max-rows", at_least(-1), -1)
    old_ms = options.milliseconds("lookup.cache.ttl", 0)
    keeps_missing = options.flag("lookup.cache.caching-missing-key", True)
    partial = CacheSettings(
        options.number(f"{_PARTIAL}max-rows", 0),
        options.milliseconds(f"{_PARTIAL}expire-after-write", 0),
        options.milliseconds(f"{_PARTIAL}expire-after-access", 0),
        options.flag(f"{_PARTIAL}cache-missing-key", True),
    )
    if options.choice("lookup.cache", "NONE", ("NONE", "PARTIAL")) == "PARTIAL":
        return partial
    # The older options alone make a cache as well, if both are set.
    return CacheSettings(old_keys, old_ms, 0, keeps_missing) if old_keys > 0 and old_ms else None


class CachedLookup:
    """Asks another lookup for what it has not kept."""

    def __init__(
        self, inner: Lookup, settings: CacheSettings, now_s: Callable[[], float] = monotonic
    ) -> None:
        self._inner, self._settings, self._now_s = inner, settings, now_s
        self._kept: OrderedDict[object, tuple[Sequence[Row], float, float]] = OrderedDict()
        """By key: the rows, and when they were found and last used, the longest unused first."""

    def open(self) -> None:
        """Open the inner lookup."""
        self._inner.open()

    def rows(self, key: Row) -> Sequence[Row]:
        """Return the rows of a key."""
        settings, now_s, place = self._settings, self._now_s(), identity(key)
        held = self._kept.pop(place, None)
        if held is not None and self._is_fresh(held[1], held[2], now_s):
            self._kept[place] = (held[0], held[1], now_s)
            return held[0]
        found = self._inner.rows(key)
        if found or settings.keeps_missing:
            self._kept[place] = (found, now_s, now_s)
            if settings.max_keys and len(self._kept) > settings.max_keys:
                self._kept.popitem(last=False)
        return found

    def _is_fresh(self, written_s: float, used_s: float, now_s: float) -> bool:
        settings = self._settings
        bounds = ((settings.written_ms, written_s), (settings.used_ms, used_s))
        return all(not limit_ms or (now_s - since_s) * 1000 < limit_ms for limit_ms, since_s in bounds)

    def close(self) -> None:
        """Close the inner lookup."""
        self._inner.close()


class HeldRows:
    """Looks up in rows that are given (ours)."""

    def __init__(self, rows: Sequence[Row], keys: Sequence[int]) -> None:
        self._by_key: dict[object, list[Row]] = {}
        for row in rows:
            self._by_key.setdefault(identity(tuple([row[place] for place in keys])), []).append(row)

    def open(self) -> None:
        """Do nothing."""

    def rows(self, key: Row) -> Sequence[Row]:
        """Return the rows of a key."""
        return self._by_key.get(identity(key), ())

    def close(self) -> None:
        """Do nothing."""
