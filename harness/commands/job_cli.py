"""`onceproof checkpoints` and `onceproof job`: the part of the command line that is about jobs of the engine.

As in `onceproof.harness.commands.cli`, nothing dear is imported before it is known what is asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onceproof.harness.commands.options import (
    AsJson,
    CheckpointPath,
    JobsFolder,
    JobSubject,
    Patience,
    SavepointFolder,
    Seed,
)

checkpoints = typer.Typer(
    help="Look at checkpoints and savepoints, in a folder or at an address, loading no state; delete one.",
    no_args_is_help=False,
)


@checkpoints.command("list")
def list_checkpoints(path: CheckpointPath, as_json: AsJson = False) -> None:
    """List the checkpoints under a path."""
    from onceproof.harness.commands.checkpoints import list_command

    raise typer.Exit(list_command(path, as_json))


@checkpoints.command("show")
def show_checkpoints(path: CheckpointPath, as_json: AsJson = False) -> None:
    """Show the operators of each checkpoint, and how much state they have."""
    from onceproof.harness.commands.checkpoints import show_command

    raise typer.Exit(show_command(path, as_json))


@checkpoints.command("verify")
def verify_checkpoints(path: CheckpointPath, as_json: AsJson = False) -> None:
    """Check every file of each checkpoint: 1 if one is damaged."""
    from onceproof.harness.commands.checkpoints import verify_command

    raise typer.Exit(verify_command(path, as_json))


@checkpoints.command("delete")
def delete_checkpoint(path: CheckpointPath) -> None:
    """Delete one savepoint or retained checkpoint, its metadata first; not one of a job that runs."""
    from onceproof.harness.commands.checkpoints import delete_command

    raise typer.Exit(delete_command(path))


jobs = typer.Typer(
    help="Run a family's job, or a program's, and ask it for savepoints while it runs.", no_args_is_help=False
)


@jobs.command("run")
def run_job(
    subject: JobSubject,
    start: Annotated[
        str | None, typer.Option("--from", metavar="PATH", help="A savepoint or retained checkpoint.")
    ] = None,
    parallelism: Annotated[int | None, typer.Option("--parallelism", "-p", min=1, help="Subtasks.")] = None,
    claim: Annotated[bool, typer.Option("--claim", help="It may be deleted once it is not needed.")] = False,
    allow_non_restored_state: Annotated[
        bool, typer.Option("--allow-non-restored-state", help="State of operators that are gone is left.")
    ] = False,
    system: Annotated[str, typer.Option("--system", help="What runs it: local or spark.")] = "local",
    seed: Seed = 0,
    rate: Annotated[
        float | None, typer.Option("--rate", min=0.01, help="Records a second that a family reads.")
    ] = None,
    folder: JobsFolder = None,
) -> None:
    """Run a job to its end, perhaps from a savepoint and at another parallelism."""
    from onceproof.engine.runtime.places import place
    from onceproof.harness.commands.job import JOBS, run_command
    from onceproof.harness.model.exit_codes import UsageError

    if system not in ("local", "spark"):
        raise UsageError(f"--system {system}: local or spark runs a job")
    options = {"execution.target": system}
    if start is not None:
        options["execution.state-recovery.path"] = place(start)
        options["execution.state-recovery.claim-mode"] = "CLAIM" if claim else "NO_CLAIM"
    if allow_non_restored_state:
        options["execution.state-recovery.ignore-unclaimed-state"] = "true"
    if parallelism is not None:
        options["parallelism.default"] = str(parallelism)
    raise typer.Exit(run_command(subject, jobs=folder or JOBS, options=options, seed=seed, rate=rate))


@jobs.command("savepoint")
def take_savepoint(
    subject: JobSubject, directory: SavepointFolder = None, folder: JobsFolder = None, seconds: Patience = 600
) -> None:
    """Take a savepoint of a running job, and print its folder."""
    from onceproof.harness.commands.job import JOBS, ask_command, request_of

    raise typer.Exit(ask_command(subject, request_of("savepoint", directory), folder or JOBS, seconds))


@jobs.command("stop")
def stop_job(
    subject: JobSubject,
    directory: SavepointFolder = None,
    drain: Annotated[bool, typer.Option("--drain", help="Windows and timers fire, as at the end.")] = False,
    folder: JobsFolder = None,
    seconds: Patience = 600,
) -> None:
    """End a running job with a savepoint, all output committed, and print the savepoint's folder."""
    from onceproof.harness.commands.job import JOBS, ask_command, request_of

    request = request_of("stop", directory, drain)
    raise typer.Exit(ask_command(subject, request, folder or JOBS, seconds))


@jobs.command("cancel")
def cancel_job(
    subject: JobSubject,
    directory: Annotated[
        Path | None, typer.Option("--with-savepoint", metavar="DIR", help="Take a savepoint first.")
    ] = None,
    folder: JobsFolder = None,
    seconds: Patience = 600,
) -> None:
    """End a running job at once, or when a savepoint is complete."""
    from onceproof.harness.commands.job import JOBS, ask_command, request_of

    request = request_of("cancel" if directory is None else "cancel_with_savepoint", directory)
    raise typer.Exit(ask_command(subject, request, folder or JOBS, seconds))
