"""The options of `onceproof job run` and `cancel`, each with its name on the command line and its help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, TypeAlias

import typer
from typer.core import TyperCommand

WITH_SAVEPOINT: Final = ("--with-savepoint", "--withSavepoint", "-s")
CONFIGURED: Final = ""
"""In place of a folder: the one that the job is configured with."""


class CancelCommand(TyperCommand):
    """`job cancel`, whose `-s` may stand without a folder, as on Flink's command line.

    What follows `-s` is the folder only where a job is named besides.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the configured folder where none is given."""
        given = with_configured_folder(args)
        if given != args:
            return super().parse_args(ctx, given)
        positional = self.make_parser(ctx).parse_args(args=list(args))[0].get("subject")
        if not isinstance(positional, str):
            given = with_configured_folder(args, follows=True)
        return super().parse_args(ctx, given)


def with_configured_folder(args: Sequence[str], follows: bool = False) -> list[str]:
    """Return the arguments with a folder for a `-s` without one; ``follows``: what follows it is the job."""
    given: list[str] = []
    for place, argument in enumerate(args):
        given.append(argument)
        after = args[place + 1 : place + 2]
        if argument in WITH_SAVEPOINT and (follows or not after or after[0].startswith("-")):
            given.append(CONFIGURED)
    return given


StartPath: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--from",
        "--fromSavepoint",
        "-s",
        metavar="PATH",
        help="Restore this savepoint or retained checkpoint.",
    ),
]
JobName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="NAME",
        help="Name under which the job resumes in its checkpoint folder (high-availability.cluster-id).",
    ),
]
Parallelism: TypeAlias = Annotated[
    int | None, typer.Option("--parallelism", "-p", min=1, help="Number of subtasks per operator.")
]
WorkerProcesses: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        help="Number of processes that run the tasks on the local runtime (execution.local.workers).",
    ),
]
StandsBy: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--standby",
        help="If the job runs in another process, wait, and take over when that one dies or hangs"
        " (high-availability.lease-timeout, 15 s if it is unset).",
    ),
]
ClaimsStart: TypeAlias = Annotated[
    bool,
    typer.Option("--claim", help="With --from: the job owns the files and deletes them when unused."),
]
LeavesState: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--allow-non-restored-state",
        "--allowNonRestoredState",
        "-n",
        help="With --from: ignore the state of operators that the job no longer has.",
    ),
]
RuntimeName: TypeAlias = Annotated[str, typer.Option("--system", help="Runtime of the job: local or spark.")]
RestPort: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--rest",
        min=0,
        max=65535,
        metavar="PORT",
        help="Offer the REST API and the page of the job at this port of the loopback interface; 0: any free"
        " one (rest.port).",
    ),
]
WatchInterval: TypeAlias = Annotated[
    float, typer.Option("--interval", min=0.1, metavar="SECONDS", help="Time between two updates.")
]
WatchOnce: TypeAlias = Annotated[bool, typer.Option("--once", help="Print the state once and exit.")]
RecordSeed: TypeAlias = Annotated[
    int, typer.Option("--seed", help="Seed from which a family's records are drawn.")
]
SourceRate: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--rate", min=0.01, help="For a family: largest number of records per second from each split."
    ),
]
Overrides: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "-D", metavar="KEY=VALUE", help="Set an option, with precedence over program and cluster; repeatable."
    ),
]
ProgramFunction: TypeAlias = Annotated[
    str,
    typer.Option(
        "-c", "--function", metavar="FUNCTION", help="Import the program and call this function of it."
    ),
]
ExplainsConfig: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--explain-config", help="Print which options are set and where, instead of running the job."
    ),
]
