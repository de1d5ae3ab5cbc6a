"""Owner ids: how a sink recognises what it has made in a target that other sinks use, too.

The rules this module lives by:

- An owner is one operator of one job over one checkpoint folder. It has the same id in every attempt and
  process of the job, and no other operator of any job has it. Names in a shared target carry it.
- The scope tells checkpoint folders apart: it holds a random token that the folder keeps, so that the same
  path on two machines gives two owners, and the place of the folder, so that a copied folder gives another.
  A job without a folder has a scope of its own in every process.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final

OWNER_DIGITS: Final = 16
"""The length of an owner id: hexadecimal digits."""


@lru_cache(maxsize=4096)
def owner_id(scope: str, job_id: str, operator_id: str) -> str:
    """Return the owner id of an operator."""
    parts = "\0".join((scope, job_id, operator_id))
    return hashlib.sha256(b"owner\0" + parts.encode(errors="surrogatepass")).hexdigest()[:OWNER_DIGITS]
