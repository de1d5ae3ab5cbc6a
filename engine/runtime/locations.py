"""Places: folders of the local file system, and addresses of others, such as ``s3://bucket/checkpoints``.

The rules this module lives by:

- A place is a string. A folder is an absolute path; ``file://`` says no more than that and is taken off. What
  begins with another scheme is an address, and stays as it is but for slashes at its end.
- Nothing here touches a file system: these are names.
"""

from __future__ import annotations

import os
import re
from typing import Final

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_LOCAL: Final = "file://"


def scheme_of(text: str) -> str:
    """The scheme of an address; "" of a folder."""
    found = None if text.startswith(_LOCAL) else _SCHEME.match(text)
    return "" if found is None else found[1].lower()


def location(text: str) -> str:
    """The place that a user means."""
    if scheme_of(text):
        return text.rstrip("/")
    return os.path.abspath(text.removeprefix(_LOCAL))


def join_location(at: str, *names: str) -> str:
    """A place in another one."""
    return "/".join((at.rstrip("/"), *names))


def name_of(at: str) -> str:
    """The last part of a place."""
    return at.rpartition("/")[2]


def parent_of(at: str) -> str:
    """The place that a place lies in."""
    return at.rpartition("/")[0] or "/"


def is_same(one: str, other: str) -> bool:
    """Whether two places are one, also where a link leads from one folder to the other."""
    if scheme_of(one) or scheme_of(other):
        return one == other
    return os.path.realpath(one) == os.path.realpath(other)
