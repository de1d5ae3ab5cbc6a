"""The options of `onceproof checkpoints` and `onceproof job`, the commands for jobs of the engine.

Slow imports stand inside the subcommands, for the same reason as in `onceproof.harness.commands.cli`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onceproof.harness.commands.shared_options import (
    AnswerTimeout,
    AsJson,
    CheckpointPath,
    JobsFolder,
    JobSubject,
    JobToRun,
    SavepointFolder,
)

checkpoints = typer.Typer(
    help="List, inspect, verify and delete checkpoints and savepoints. No state is loaded.",
    no_args_is_help=False,
)


@checkpoints.command("list")
def list_checkpoints(path: CheckpointPath, as_json: AsJson = False) -> None:
    """List the checkpoints under a path."""
    from onceproof.harness.commands.checkpoints import list_command

    raise typer.Exit(list_command(path, as_json))


@checkpoints.command("show")
def show_checkpoints(path: CheckpointPath, as_json: AsJson = False) -> None:
    """Show the operators of each checkpoint and the size of their state."""
    from onceproof.harness.commands.checkpoints import show_command

    raise typer.Exit(show_command(path, as_json))


@checkpoints.command("verify")
def verify_checkpoints(path: CheckpointPath, as_json: AsJson = False) -> None:
    """Check every file of each checkpoint. Exit code 1: a file is damaged."""
    from onceproof.harness.commands.checkpoints import verify_command

    raise typer.Exit(verify_command(path, as_json))


@checkpoints.command("delete")
def delete_checkpoint(path: CheckpointPath) -> None:
    """Delete one savepoint or retained checkpoint of a job that does not run."""
    from onceproof.harness.commands.checkpoints import delete_command

    raise typer.Exit(delete_command(path))


jobs = typer.Typer(
    help="Run the job of a family or of a program; take savepoints, stop it or cancel it.",
    no_args_is_help=False,
)


@jobs.command("run")
def run_job(
    subject: JobToRun,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="PATH", help="Restore this savepoint or retained checkpoint."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            help="Name under which the job goes on in its checkpoint folder (high-availability.cluster-id).",
        ),
    ] = None,
    parallelism: Annotated[
        int | None, typer.Option("--parallelism", "-p", min=1, help="Number of subtasks per operator.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            min=1,
            help="Number of processes that run the tasks on the local runtime (execution.local.workers).",
        ),
    ] = None,
    claim: Annotated[
        bool,
        typer.Option("--claim", help="With --from: the job owns the files and deletes them when unused."),
    ] = False,
    allow_non_restored_state: Annotated[
        bool,
        typer.Option(
            "--allow-non-restored-state",
            help="With --from: ignore the state of operators that the job no longer has.",
        ),
    ] = False,
    system: Annotated[str, typer.Option("--system", help="Runtime of the job: local or spark.")] = "local",
    seed: Annotated[int, typer.Option("--seed", help="Seed from which a family's records are drawn.")] = 0,
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate", min=0.01, help="For a family: largest number of records per second from each split."
        ),
    ] = None,
    folder: JobsFolder = None,
) -> None:
    """Run a job to its end."""
    from onceproof.engine.runtime.locations import location
    from onceproof.harness.commands.job import JOBS, run_command
    from onceproof.harness.model.exit_codes import UsageError

    if system not in ("local", "spark"):
        raise UsageError(f"--system {system}: no such runtime; use local or spark")
    options = {"execution.target": system}
    if start is not None:
        options["execution.state-recovery.path"] = location(start)
        options["execution.state-recovery.claim-mode"] = "CLAIM" if claim else "NO_CLAIM"
    if name is not None:
        options["high-availability.cluster-id"] = name
    if allow_non_restored_state:
        options["execution.state-recovery.ignore-unclaimed-state"] = "true"
    if parallelism is not None:
        options["parallelism.default"] = str(parallelism)
    if workers is not None:
        options["execution.local.workers"] = str(workers)
    raise typer.Exit(run_command(subject, jobs=folder or JOBS, options=options, seed=seed, rate=rate))


@jobs.command("list")
def list_jobs(
    root: Annotated[
        str | None,
        typer.Argument(
            metavar="[ROOT]",
            help="A checkpoint folder or address; without it, those of the jobs that were run from here.",
        ),
    ] = None,
    as_json: AsJson = False,
    folder: JobsFolder = None,
) -> None:
    """List the jobs of a checkpoint folder: name, id, state, last checkpoint, program."""
    from onceproof.harness.commands.job import JOBS
    from onceproof.harness.commands.job_listing import list_command

    raise typer.Exit(list_command(root, folder or JOBS, as_json))


@jobs.command("savepoint")
def take_savepoint(
    subject: JobSubject,
    directory: SavepointFolder = None,
    folder: JobsFolder = None,
    seconds: AnswerTimeout = 600,
) -> None:
    """Take a savepoint of a running job and print its folder."""
    from onceproof.harness.commands.job import JOBS, ask_command, request_of

    raise typer.Exit(ask_command(subject, request_of("savepoint", directory), folder or JOBS, seconds))


@jobs.command("stop")
def stop_job(
    subject: JobSubject,
    directory: SavepointFolder = None,
    drain: Annotated[
        bool, typer.Option("--drain", help="Fire all windows and timers first, as at the end of the input.")
    ] = False,
    folder: JobsFolder = None,
    seconds: AnswerTimeout = 600,
) -> None:
    """Stop a running job with a savepoint, commit all its output, and print the savepoint's folder."""
    from onceproof.harness.commands.job import JOBS, ask_command, request_of

    request = request_of("stop", directory, drain)
    raise typer.Exit(ask_command(subject, request, folder or JOBS, seconds))


@jobs.command("cancel")
def cancel_job(
    subject: JobSubject,
    directory: Annotated[
        Path | None,
        typer.Option("--with-savepoint", metavar="DIR", help="Take a savepoint below this folder first."),
    ] = None,
    folder: JobsFolder = None,
    seconds: AnswerTimeout = 600,
) -> None:
    """Cancel a running job at once, or after a savepoint."""
    from onceproof.harness.commands.job import JOBS, ask_command, request_of

    request = request_of("cancel" if directory is None else "cancel_with_savepoint", directory)
    raise typer.Exit(ask_command(subject, request, folder or JOBS, seconds))
