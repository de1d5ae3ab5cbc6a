"""`onceproof job list [ROOT]`: the jobs of a checkpoint folder, as its registry and its folders know them.

The rules this module lives by:

- Nothing is changed, and no state is read.
- Without ROOT, it lists the checkpoint folders of the jobs that `job run` has registered here.
- What is damaged or missing hides nothing else: a record, a job's folder or a registered checkpoint folder
  that cannot be read is one line with the reason. Exit code 1 then, 5 if there is no job.
- A ROOT that the user names and that cannot be read is an error.
- Texts from files are printed without control characters.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from onceproof.engine.locations import location, parent_of, scheme_of
from onceproof.engine.runtime.job_fingerprint import printable
from onceproof.engine.runtime.job_registry import RUNNING, JobRegistry, ListedJob
from onceproof.engine.runtime.monitor.rest_note import read_note
from onceproof.engine.runtime.storage import StorageError
from onceproof.harness.commands.job import noted_folder
from onceproof.harness.model.exit_codes import FAILED, NOTHING_RAN, PASSED, UsageError

_LATEST_MS: Final = 253_402_300_800_000
"""The year 10000, from which on a forged time is not shown."""


def list_command(root: str | None, notes: Path, as_json: bool) -> int:
    """List the jobs under a root, or under the roots of the jobs registered in the folder ``notes``."""
    damages: list[str] = []
    roots = _noted_roots(notes, damages) if root is None else [location(root)]
    jobs: list[tuple[ListedJob, str]] = []
    for each in roots:
        try:
            jobs += [(job, _address_of(each, job)) for job in _jobs_of(each)]
        except UsageError as error:
            if root is not None:
                raise
            damages.append(str(error))
    if as_json:
        summaries = [_summary(*job) for job in jobs] + [{"damage": damage} for damage in damages]
        print(msgspec.json.encode(summaries).decode())
    else:
        for line in [_text(*job) for job in jobs] + [printable(damage) for damage in damages]:
            print(line)
        if not jobs and not damages:
            print(f"{root or notes}: no job found")
    if not jobs and not damages:
        return NOTHING_RAN
    return FAILED if damages or any(job.damage for job, _ in jobs) else PASSED


def _address_of(root: str, job: ListedJob) -> str:
    """Return where the REST API of a running job is; "": it offers none."""
    note = None if scheme_of(root) or job.state != RUNNING else read_note(Path(root, job.job_id))
    return "" if note is None else printable(note.url)


def _noted_roots(notes: Path, damages: list[str]) -> list[str]:
    """Return the checkpoint folders that the notes name; ``damages`` gets a line for each other note."""
    found: set[str] = set()
    for note in sorted(notes.glob("*.json")):
        try:
            found.add(parent_of(str(noted_folder(note))))
        except UsageError as error:
            damages.append(str(error))
    return sorted(found)


def _jobs_of(root: str) -> list[ListedJob]:
    if not scheme_of(root) and not Path(root).is_dir():
        raise UsageError(f"{root}: no such folder: its jobs were deleted or moved: name their folder")
    try:
        return JobRegistry(root).jobs()
    except StorageError as error:
        raise UsageError(str(error)) from error


def _summary(job: ListedJob, address: str) -> dict[str, Any]:
    record = job.record
    summary: dict[str, Any] = {
        "id": job.job_id,
        "state": job.state,
        "last_checkpoint": job.last_checkpoint or None,
    }
    if job.damage:
        summary["damage"] = job.damage
    if address:
        summary["rest"] = address
    if job.last_sign_ms is not None:
        summary["last_sign_of_life_ms"] = job.last_sign_ms or None
    if record is not None:
        summary |= {
            "name": record.identity or None,
            "title": record.name,
            "program": record.program,
            "submitted_ms": record.submitted_ms,
            "ended_ms": record.ended_ms or None,
            "failure": record.failure or None,
        }
    return summary


def _state_text(job: ListedJob) -> str:
    """Return the state in words; in an object store nothing shows whether the process of a job lives."""
    if job.last_sign_ms is None:
        return job.state
    if not 0 < job.last_sign_ms < _LATEST_MS:
        return f"{job.state}, or killed"
    seen = datetime.fromtimestamp(job.last_sign_ms // 1000, UTC)
    return f"{job.state}, or killed: last sign of life at {seen:%Y-%m-%d %H:%M:%S} UTC"


def _text(job: ListedJob, address: str) -> str:
    record = job.record
    state = _state_text(job)
    checkpoint = (
        f"last checkpoint {printable(job.last_checkpoint)}" if job.last_checkpoint else "no checkpoint"
    )
    if job.damage:
        return f"{job.job_id}: {state}, {checkpoint}: {printable(job.damage)}"
    if record is None:
        return f"{job.job_id}: {state}, {checkpoint}, from before the registry"
    name = printable(record.identity) or f"{printable(record.name)} (no name)"
    text = f"{name}: id {job.job_id}, {state}, {checkpoint}, program {printable(record.program)}"
    if address:
        text += f", REST API at {address}"
    return f"{text}: {printable(record.failure)}" if record.failure else text
