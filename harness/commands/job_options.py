"""The options of `onceproof job run`, each with its name on the command line and its help."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

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
        help="Name under which the job goes on in its checkpoint folder (high-availability.cluster-id).",
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
        help="If the job runs in another process, wait, and go on when that one dies or hangs"
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
    float, typer.Option("--interval", min=0.1, metavar="SECONDS", help="Time between two looks.")
]
WatchOnce: TypeAlias = Annotated[bool, typer.Option("--once", help="Print one picture and end.")]
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
        "-D", metavar="KEY=VALUE", help="Set an option, over the program and the cluster; repeatable."
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
