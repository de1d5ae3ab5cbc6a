"""`onceproof job savepoint|stop|cancel`: send a request to a running job, and print what came of it.

The rules this module lives by:

- A job is named by what was run (a family or a program), by its id or its name in a registry, or by its
  checkpoint folder. The registries are those of the jobs that were run from here.
- A job that offers its REST API is asked over it, and may be named by its address as well. Requests to others
  travel as files (engine/runtime/request_folder.py), so the job may run in any process.
- The lines are those of Flink's command line, for scripts that read them.
- Exit codes: 0 done; 1 the job refused the request or failed; 4 no such job, or it is not running.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from onceproof.engine.locations import parent_of
from onceproof.engine.runtime.job_registry import JobRegistry
from onceproof.engine.runtime.job_requests import JobAnswer, JobRequest, RequestKind
from onceproof.engine.runtime.monitor.rest_note import read_note
from onceproof.engine.runtime.request_folder import JobNotRunning, NoAnswer, ask, is_running
from onceproof.engine.runtime.storage import StorageError
from onceproof.harness.commands.job import name_of, noted_folder
from onceproof.harness.commands.rest_client import RestClient, RestRefused, is_address
from onceproof.harness.model.exit_codes import FAILED, PASSED, UsageError


def ask_command(subject: str, request: JobRequest, jobs: Path, seconds: float, as_json: bool = False) -> int:
    """Send a request to a running job, wait at most ``seconds`` for the answer, and print it."""
    folder = None if is_address(subject) else folder_of(subject, jobs)
    client = client_of(subject, folder)
    try:
        if client is not None:
            job_id = client.job_id
            answer = client.change(request, seconds)
        else:
            assert folder is not None
            job_id = folder.name
            answer = ask(folder, request, seconds)
    except RestRefused as refused:
        answer = JobAnswer(error=str(refused))
    if answer.error:
        print(answer.error, file=sys.stderr)
        return FAILED
    if as_json:
        document = {"job": job_id, "request": request.kind, "savepoint": answer.savepoint or None}
        print(msgspec.json.encode(document).decode())
    elif request.kind == "cancel":
        print(f"Cancelled job {job_id}.")
    elif request.kind == "cancel_with_savepoint":
        print(f"Cancelled job {job_id}. Savepoint stored in {answer.savepoint}")
    else:
        print(f"Savepoint completed. Path: {answer.savepoint}")
    return PASSED


def request_of(kind: RequestKind, directory: Path | None, drains: bool = False) -> JobRequest:
    """Return a request; its folder is absolute, because the job may run in another working directory."""
    return JobRequest(kind, "" if directory is None else str(directory.absolute()), drains)


def client_of(subject: str, folder: Path | None) -> RestClient | None:
    """Return the client of a job's REST API; None: it offers none, or its process has left the note behind.

    Args:
        subject: the address, if ``folder`` is None.
        folder: the job's checkpoint folder.

    Raises:
        UsageError: the address is none.
    """
    if folder is None:
        return RestClient.of_address(subject)
    note = read_note(folder) if is_running(folder) else None
    if note is None:
        return None
    client = RestClient.of_note(note)
    try:
        return client if client.job_id == folder.name else None
    except (JobNotRunning, NoAnswer, RestRefused):
        # Files reach the job all the same.
        return None


def folder_of(subject: str, jobs: Path) -> Path:
    """Return the checkpoint folder of a job. Raises UsageError."""
    path = Path(subject)
    if path.is_dir():
        return path
    note = jobs / f"{name_of(subject)}.json"
    if note.exists():
        return noted_folder(note)
    found = _registered(subject, jobs)
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(sorted(map(str, found)))
        raise UsageError(f"{len(found)} jobs are called {subject!r}: name one by its folder: {listed}")
    raise UsageError(
        f"no job {subject!r} is registered here (no file {note}, and no such id or name in `onceproof job"
        " list`): name the job's checkpoint folder, or the --jobs folder that it was run with"
    )


def _registered(id_or_name: str, jobs: Path) -> list[Path]:
    """Return the folders of the jobs of that id or name in the registries of the jobs run from here."""
    found: set[Path] = set()
    for note in sorted(jobs.glob("*.json")):
        try:
            root = parent_of(str(noted_folder(note)))
            listed = JobRegistry(root).jobs()
        except (UsageError, StorageError):
            # `onceproof job list` has the reason.
            continue
        for job in listed:
            name = "" if job.record is None else job.record.identity
            if id_or_name in (job.job_id, name):
                found.add(Path(root, job.job_id))
    return list(found)
