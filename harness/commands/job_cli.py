"""The options of `onceproof checkpoints` and `onceproof job`, the commands for jobs of the engine.

Slow imports stand inside the subcommands, for the same reason as in `onceproof.harness.commands.cli`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from onceproof.harness.commands.job_options import (
    WITH_SAVEPOINT,
    CancelCommand,
    ClaimsStart,
    ExplainsConfig,
    JobName,
    LeavesState,
    Overrides,
    Parallelism,
    ProgramFunction,
    RecordSeed,
    RestPort,
    RuntimeName,
    SourceRate,
    StandsBy,
    StartPath,
    WatchInterval,
    WatchOnce,
    WorkerProcesses,
)
from onceproof.harness.commands.script_options import PyflinkOfJob
from onceproof.harness.commands.shared_options import (
    AnswerTimeout,
    AsJson,
    CheckpointPath,
    JobsFolder,
    JobSubject,
    JobToRun,
    Master,
    PropertiesFile,
    SavepointFolder,
    SparkSettings,
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
def delete_checkpoint(path: CheckpointPath, as_json: AsJson = False) -> None:
    """Delete one savepoint or retained checkpoint of a job that does not run."""
    from onceproof.harness.commands.checkpoints import delete_command

    raise typer.Exit(delete_command(path, as_json))


jobs = typer.Typer(
    help="Run the job of a family or of a program; watch it, take savepoints, stop it or cancel it.",
    no_args_is_help=False,
)


@jobs.command("run", context_settings={"allow_extra_args": True})
def run_job(
    context: typer.Context,
    subject: JobToRun,
    start: StartPath = None,
    name: JobName = None,
    parallelism: Parallelism = None,
    workers: WorkerProcesses = None,
    standby: StandsBy = False,
    claim: ClaimsStart = False,
    allow_non_restored_state: LeavesState = False,
    system: RuntimeName = "local",
    master: Master = None,
    conf: SparkSettings = None,
    properties_file: PropertiesFile = None,
    seed: RecordSeed = 0,
    rate: SourceRate = None,
    rest: RestPort = None,
    overrides: Overrides = None,
    function: ProgramFunction = "",
    explain: ExplainsConfig = False,
    pyflink: PyflinkOfJob = None,
    folder: JobsFolder = None,
) -> None:
    """Run a job to its end. What follows `--` are the arguments of the program."""
    from onceproof.engine.locations import location
    from onceproof.engine.runtime.spark_settings import NO_OPTIONS, SparkOptions
    from onceproof.harness.commands.job import JOBS, Run, run_command
    from onceproof.harness.model.exit_codes import UsageError

    if system not in ("local", "spark"):
        raise UsageError(f"--system {system}: no such runtime; use local or spark")
    options: dict[str, Any] = {"execution.target": system}
    spark = SparkOptions.of(master, conf or (), properties_file)
    if system != "spark" and spark != NO_OPTIONS:
        raise UsageError("--master, --conf and --properties-file are for --system spark")
    if spark.master is not None:
        options["execution.spark.master"] = spark.master
    if spark.configuration:
        options["execution.spark.conf"] = spark.configuration
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
    if rest is not None:
        options["rest.port"] = str(rest)
    if standby:
        options["high-availability.lease-timeout"] = "15 s"
    run = Run(options, overrides or (), function, context.args, explain, seed, rate, pyflink or "")
    raise typer.Exit(run_command(subject, folder or JOBS, run))


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


@jobs.command("watch")
def watch_job(
    subject: JobSubject,
    interval: WatchInterval = 1.0,
    once: WatchOnce = False,
    as_json: AsJson = False,
    folder: JobsFolder = None,
) -> None:
    """Show a running job in the terminal: rates, backpressure, checkpoints, transactions, attempts."""
    from onceproof.harness.commands.job import JOBS
    from onceproof.harness.commands.job_watch import watch_command

    raise typer.Exit(watch_command(subject, folder or JOBS, interval, once=once, as_json=as_json))


@jobs.command("savepoint")
def take_savepoint(
    subject: JobSubject,
    target: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="The same as --directory.", show_default=False)
    ] = None,
    directory: SavepointFolder = None,
    dispose: Annotated[
        bool,
        typer.Option("--dispose", "-d", help="Delete a savepoint, which is named in place of a job."),
    ] = False,
    folder: JobsFolder = None,
    seconds: AnswerTimeout = 600,
    as_json: AsJson = False,
) -> None:
    """Take a savepoint of a running job and print its folder."""
    from onceproof.harness.commands.checkpoints import delete_command
    from onceproof.harness.commands.job import JOBS
    from onceproof.harness.commands.job_requests import ask_command, request_of

    if dispose:
        raise typer.Exit(delete_command(subject, as_json))
    request = request_of("savepoint", directory or target)
    raise typer.Exit(ask_command(subject, request, folder or JOBS, seconds, as_json))


@jobs.command("stop")
def stop_job(
    subject: JobSubject,
    directory: SavepointFolder = None,
    drain: Annotated[
        bool, typer.Option("--drain", help="Fire all windows and timers first, as at the end of the input.")
    ] = False,
    folder: JobsFolder = None,
    seconds: AnswerTimeout = 600,
    as_json: AsJson = False,
) -> None:
    """Stop a running job with a savepoint, commit all its output, and print the savepoint's folder."""
    from onceproof.harness.commands.job import JOBS
    from onceproof.harness.commands.job_requests import ask_command, request_of

    request = request_of("stop", directory, drain)
    raise typer.Exit(ask_command(subject, request, folder or JOBS, seconds, as_json))


@jobs.command("cancel", cls=CancelCommand)
def cancel_job(
    subject: JobSubject,
    directory: Annotated[
        str | None,
        typer.Option(
            *WITH_SAVEPOINT,
            metavar="[DIR]",
            help="Take a savepoint first: below this folder, or the one that the job is configured with.",
        ),
    ] = None,
    folder: JobsFolder = None,
    seconds: AnswerTimeout = 600,
    as_json: AsJson = False,
) -> None:
    """Cancel a running job at once, or after a savepoint."""
    from onceproof.harness.commands.job import JOBS
    from onceproof.harness.commands.job_requests import ask_command, request_of

    if directory is None:
        request = request_of("cancel", None)
    else:
        request = request_of("cancel_with_savepoint", Path(directory) if directory else None)
    raise typer.Exit(ask_command(subject, request, folder or JOBS, seconds, as_json))
