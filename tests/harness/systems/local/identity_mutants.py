"""Bugs planted into the guard of a job's name, which only a second program meets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine.runtime import job_identity
from onceproof.engine.runtime.job_registry import JobRegistry
from onceproof.harness.model.mutants import Reached, mutant, replaced


@mutant(
    id="any-program-under-a-name",
    breaks="no_error",
    summary="a program goes on from the checkpoints under its name, whatever it reads",
)
def any_program_under_a_name(reached: Reached) -> Iterator[None]:
    """No difference between two programs is one."""

    def nothing_differs(*arguments: Any, **options: Any) -> Iterator[str]:
        reached()
        return iter(())

    with replaced(job_identity, "differences", nothing_differs):
        yield


@mutant(
    id="registry-forgets",
    breaks="no_error",
    summary="the record of a job is gone when its program is started again",
)
def registry_forgets(reached: Reached) -> Iterator[None]:
    """No record is found."""

    def forgotten(self: JobRegistry, job_id: str) -> None:
        reached()

    with replaced(JobRegistry, "read", forgotten):
        yield


@mutant(
    id="record-without-sources",
    breaks="no_error",
    summary="the record of a job does not say what its sources read",
)
def record_without_sources(reached: Reached) -> Iterator[None]:
    """Every source reads the same."""
    fingerprint_of = job_identity.fingerprint_of

    def without_sources(graph: Any) -> Any:
        reached()
        return tuple([type(each)(each.operator_id, each.name, each.uid) for each in fingerprint_of(graph)])

    with replaced(job_identity, "fingerprint_of", without_sources):
        yield
