"""The plans of programs with tables: Flink's planner is asked for each once, and its answers are kept.

Rules:

- A request is all that a program has said of its tables, so its digest stands for the answer. An answer is
  kept in the cache of the user, and in this process. Then neither Flink nor Java is needed: workers and
  replays find what the first run has kept.
- What the planner answers depends on the client that asks it, so the digest is one of both.
- A refusal is not kept: another version of the program asks another question.
- The planner starts with the first request whose answer is not kept, and ends with the block of ``planning``.
  It belongs to the process that has started it.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import msgspec

from onceproof.engine.table.api.planning import has_planner, use_planner
from onceproof.engine.table.planner.planner_process import CLIENT, Planner, PlannerBroken, PlanRequest
from onceproof.harness.scripts.sql.plans import PLANS, keep
from onceproof.harness.services.service import ServiceError, user_cache
from onceproof.harness.systems.flink.home import VERSION
from onceproof.harness.systems.flink.planner import find_planner


class KeptAnswer(msgspec.Struct, frozen=True):
    """What a file of a kept answer holds."""

    flink: str
    answer: dict[str, Any]


class ProgramPlanner:
    """Answers requests for plans from what is kept, or asks Flink's planner."""

    def __init__(self) -> None:
        self._answers: dict[str, Mapping[str, Any]] = {}
        self._planner: Planner | None = None
        self._process = 0
        self._lock = threading.Lock()

    def ask(self, request: PlanRequest) -> Mapping[str, Any]:
        """Return an answer. Raises PlanningFailed or PlannerBroken."""
        digest = digest_of(request)
        with self._lock:
            if digest not in self._answers:
                self._answers[digest] = self._found(digest, request)
            return self._answers[digest]

    def close(self) -> None:
        """End the planner, if this process has started one."""
        with self._lock:
            if self._planner is not None and self._process == os.getpid():
                self._planner.close()
            self._planner = None

    def _found(self, digest: str, request: PlanRequest) -> Mapping[str, Any]:
        place = user_cache() / PLANS / f"{digest}.json"
        try:
            return msgspec.json.decode(place.read_bytes(), type=KeptAnswer).answer
        except (OSError, msgspec.DecodeError):
            answer = self._started().plan(request)
        keep(place, KeptAnswer(VERSION, answer))
        return answer

    def _started(self) -> Planner:
        if self._planner is None or self._process != os.getpid():
            try:
                self._planner, self._process = Planner(find_planner()), os.getpid()
            except ServiceError as error:
                raise PlannerBroken(
                    f"the plan of its tables is not kept, and cannot be made: {error}"
                ) from None
        return self._planner


_PLANNER: Final = ProgramPlanner()


def digest_of(request: PlanRequest) -> str:
    """Return another text for another request, another client or another version of Flink."""
    return hashlib.sha256(msgspec.json.encode([VERSION, _client(), request])).hexdigest()[:16]


@cache
def _client() -> list[str]:
    files = sorted(CLIENT.glob("*.*"))
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]


@contextmanager
def planning() -> Iterator[None]:
    """Plan the tables of the program that runs inside the block, unless there is a planner already."""
    if has_planner():
        yield
        return
    use_planner(_PLANNER.ask)
    try:
        yield
    finally:
        use_planner(None)
        _PLANNER.close()
