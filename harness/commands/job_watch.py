"""`onceproof job watch PROGRAM|ADDRESS`: a running job in the terminal, from its REST API.

The rules this module lives by:

- It asks once in an interval and shows what the page shows. It changes nothing, so it needs no token.
- Where the output is no terminal, or with --once, it prints one picture and ends; with --json one document.
- It ends with the job. Ctrl-C ends it, and never the job.
- Exit codes: 0 done; 4 no such job, it is not running, or it offers no REST API.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from onceproof.engine.runtime.job_fingerprint import printable
from onceproof.engine.runtime.request_folder import JobNotRunning, is_running
from onceproof.harness.commands.job_requests import client_of, folder_of
from onceproof.harness.commands.rest_client import RestClient, RestRefused, is_address
from onceproof.harness.model.exit_codes import PASSED, UsageError

MOST_CHECKPOINTS: Final = 5
MOST_ATTEMPTS: Final = 3
MOST_GROWING: Final = 5
MILLIS: Final = 1000
_GOOD: Final = ("RUNNING", "FINISHED")


def watch_command(
    subject: str, jobs: Path, interval_seconds: float, *, once: bool, as_json: bool = False
) -> int:
    """Show a job until it ends, or print what is seen of it now as JSON.

    Raises JobNotRunning, NoAnswer, UsageError.
    """
    folder = None if is_address(subject) else folder_of(subject, jobs)
    client = client_of(subject, folder)
    if client is None:
        assert folder is not None
        if not is_running(folder):
            raise JobNotRunning(f"{folder}: no process runs this job: start it first")
        raise UsageError(f"{subject}: the job offers no REST API: run it with --rest 0, or set rest.port")
    try:
        if as_json:
            print(msgspec.json.encode(seen_of(client)).decode())
            return PASSED
        return watch(client, interval_seconds, once=once, console=Console())
    except RestRefused as refused:
        raise UsageError(str(refused)) from refused


def watch(client: RestClient, interval_seconds: float, *, once: bool, console: Console) -> int:
    """Show what a client sees, until the job ends."""
    picture = picture_of(client)
    if once or not console.is_terminal:
        console.print(picture)
        return PASSED
    with Live(picture, console=console, auto_refresh=False) as live:
        while True:
            time.sleep(interval_seconds)
            try:
                live.update(picture_of(client), refresh=True)
            except JobNotRunning:
                break
    console.print("The job has ended.")
    return PASSED


def seen_of(client: RestClient) -> dict[str, Any]:
    """Return what the API says of a job now, in the words of the API."""
    return {
        "job": client.of_job(),
        "checkpoints": client.of_job("/checkpoints"),
        "attempts": client.of_job("/attempts")["attempts"],
        "sinks": client.of_job("/transactions")["sinks"],
    }


def picture_of(client: RestClient) -> RenderableType:
    """Return what is seen of a job now."""
    seen = seen_of(client)
    details = seen["job"]
    parts: list[RenderableType] = [_heading(details), _vertices(details), _checkpoints(seen["checkpoints"])]
    growing = seen["checkpoints"].get("growing_states")
    if growing:
        parts.append(_growing(growing))
    if seen["sinks"]:
        parts.append(_sinks(seen["sinks"]))
    parts.append(_attempts(seen["attempts"]))
    return Group(*parts)


def _heading(details: dict[str, Any]) -> Text:
    text = Text(printable(details["name"]), style="bold")
    text.append("  ")
    text.append(details["state"], style="green" if details["state"] in _GOOD else "red")
    text.append(
        f"  {details['jid']}  attempt {details['attempt'] or '-'}  {details['restarts']} restarts"
        f"  for {duration_text(details['duration'])}",
        style="not bold dim",
    )
    return text


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, justify="left" if place == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*[Text(each) for each in row])
    return table


def _vertices(details: dict[str, Any]) -> Table:
    rows = []
    for vertex in details["vertices"]:
        found = vertex["metrics"]
        pending = found["pending-records"]
        watermark = found["watermark"]
        rows.append(
            (
                printable(vertex["name"]),
                str(vertex["parallelism"]),
                f"{found['read-records']:,}",
                f"{found['read-records-per-second']:,.0f}",
                f"{found['write-records-per-second']:,.0f}",
                f"{found['busy-ratio']:.0%}",
                f"{found['backpressured-ratio']:.0%}",
                "-" if pending is None else f"{pending:,}",
                "-" if watermark is None else duration_text(details["now"] - watermark),
            )
        )
    columns = ("vertex", "x", "read", "in/s", "out/s", "busy", "backpressure", "pending", "watermark lag")
    return _table("", columns, rows)


def _checkpoints(found: dict[str, Any]) -> Table:
    counts = found["counts"]
    rows = []
    for each in found["history"][:MOST_CHECKPOINTS]:
        state = each["status"].lower().replace("_", " ")
        if each["status"] == "FAILED":
            state = f"failed: {printable(each['failure_message'])}"
        rows.append(
            (
                str(each["id"]),
                duration_text(each["end_to_end_duration"]),
                duration_text(each["max_alignment"]),
                size_text(each["checkpointed_size"]),
                size_text(each["state_size"]),
                state,
            )
        )
    title = f"checkpoints: {counts['completed']:,} completed, {counts['failed']:,} failed"
    return _table(title, ("id", "took", "alignment", "written", "full", "state"), rows)


def _growing(states: Sequence[dict[str, Any]]) -> RenderableType:
    """Return the table of the states that only grow; a job of an earlier version reports none."""
    rows = []
    for each in states[:MOST_GROWING]:
        is_bytes = each["unit"] == "bytes"
        sizes = [size_text(each[at]) if is_bytes else f"{each[at]:,} entries" for at in ("first", "last")]
        rows.append((printable(each["operator"]), printable(each["state"]), *sizes, str(each["checkpoints"])))
    table = _table("states that only grow", ("operator", "state", "was", "is", "checkpoints"), rows)
    return Group(table, Text("see docs/troubleshooting.md#states-that-only-grow", style="dim"))


def _sinks(sinks: Sequence[dict[str, Any]]) -> Table:
    rows = [
        (
            f"{printable(each['name'])}-{each['subtask']}",
            str(each["open"]),
            str(each["pending"]),
            f"{each['committed']:,}",
            duration_text(each["last-commit-time"]),
        )
        for each in sinks
    ]
    return _table("transactions", ("sink", "open", "waiting", "committed", "last commit"), rows)


def _attempts(attempts: Sequence[dict[str, Any]]) -> Table:
    rows = []
    for each in attempts[:MOST_ATTEMPTS]:
        lasted = each["end-time"] - each["start-time"]
        rows.append(
            (
                each["attempt"],
                "runs" if each["end-time"] < 0 else duration_text(lasted),
                "-" if each["restored-checkpoint"] is None else str(each["restored-checkpoint"]),
                printable(each["cause"] or "-"),
            )
        )
    return _table("attempts", ("attempt", "lasted", "restored", "ended because of"), rows)


def duration_text(ms: float) -> str:
    """Return a duration in the unit that suits it."""
    if ms < MILLIS:
        return f"{ms:.0f} ms"
    seconds = ms / MILLIS
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = int(seconds // 60)
    return f"{minutes} min {int(seconds % 60)} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def size_text(size: float) -> str:
    """Return a number of bytes in the unit that suits it."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
