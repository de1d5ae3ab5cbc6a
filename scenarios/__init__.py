"""The families that come with onceproof, importing none of the heavy dependencies.

A module is a family and bears its name. A module that holds several families is listed below; each of them is
an object under its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SEVERAL: Final[Mapping[str, tuple[str, ...]]] = {
    "averages": ("average_by_list", "average_by_map", "average_by_value"),
}
"""By module, the names of its families."""
