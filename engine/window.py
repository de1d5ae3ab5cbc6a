"""The classes of windows under the name of PyFlink's module (pyflink.datastream.window); deprecated.

A program whose imports were changed from ``pyflink.datastream`` finds here what it imported from ``window``.
"""

from __future__ import annotations

from typing import Any, Final
from warnings import warn

from onceproof.engine.windows import assigners, count_windows, evictors, triggers, windows

_MODULES: Final = (assigners, count_windows, evictors, triggers, windows)


def __getattr__(name: str) -> Any:
    for module in _MODULES:
        found = vars(module).get(name)
        if not name.startswith("_") and getattr(found, "__module__", None) == module.__name__:
            warn(
                f"onceproof.engine.window is deprecated: import {name} from onceproof.engine",
                DeprecationWarning,
                stacklevel=2,
            )
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
