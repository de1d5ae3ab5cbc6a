"""Places: folders of the local file system, and addresses of others, such as ``s3://bucket/checkpoints``.

The rules this module lives by:

- A place is a string: the absolute path of a folder (``file://`` is removed), or an address with another
  scheme, without slashes at its end.
- A relative path means the folder where the job is submitted. So it is completed there, once: user code may
  change the working folder, and workers on other machines have another one.
- Only ``is_same`` reads the file system.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_LOCAL: Final = "file://"


def scheme_of(text: str) -> str:
    """Return the scheme of an address, or "" for a folder."""
    found = None if text.startswith(_LOCAL) else _SCHEME.match(text)
    return "" if found is None else found[1].lower()


def location(text: str) -> str:
    """Return the place for a path or address that a user gave."""
    if scheme_of(text):
        return text.rstrip("/")
    return os.path.abspath(text.removeprefix(_LOCAL))


def place_given(text: str | None) -> str | None:
    """Return the place for what a user gave as an option, or None."""
    return None if text is None else location(text)


def folder_of_relative(paths: Iterable[str]) -> str:
    """Return the working folder if any of the paths is relative to it, else ""."""
    return "" if all(map(os.path.isabs, paths)) else os.getcwd()


def join_location(at: str, *names: str) -> str:
    """Return the place of ``names`` below a place."""
    return "/".join((at.rstrip("/"), *names))


def name_of(at: str) -> str:
    """Return the last part of a place."""
    return at.rpartition("/")[2]


def parent_of(at: str) -> str:
    """Return the parent of a place."""
    return at.rpartition("/")[0] or "/"


def is_same(one: str, other: str) -> bool:
    """Return whether two places are the same, also through links."""
    if scheme_of(one) or scheme_of(other):
        return one == other
    return os.path.realpath(one) == os.path.realpath(other)
