"""Command-line options that several commands share, declared once so that each means the same everywhere."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from onceproof.harness.commands.completion import complete_family, complete_system, complete_systems
from onceproof.harness.model.seeds import LARGEST_SEED, LEAST_SEED
from onceproof.harness.model.system_homes import system_names


def typed_command() -> str:
    """Return the command line as the user typed it."""
    return shlex.join(("onceproof", *sys.argv[1:]))


def _fitting_seed(seed: int | None) -> int | None:
    """Return a seed; refuse one that has more than 64 bits."""
    if seed is not None and not LEAST_SEED <= seed <= LARGEST_SEED:
        raise typer.BadParameter(f"{seed} is no seed: a seed has at most 64 bits")
    return seed


Families: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FAMILY|FILE]...",
        help="Families to run, or programs (FILE.toml). Default: those in pyproject.toml, else all built-in.",
        autocompletion=complete_family,
    ),
]
ComparedFamilies: TypeAlias = Annotated[
    list[str],
    typer.Argument(
        metavar="FAMILY|FILE...",
        help="Families to run, or programs (FILE.toml).",
        autocompletion=complete_family,
    ),
]
CheckedFamilies: TypeAlias = Annotated[
    list[str],
    typer.Argument(metavar="FAMILY|FILE.py...", help="Families to check.", autocompletion=complete_family),
]
Systems: TypeAlias = Annotated[
    str,
    typer.Option(
        "--systems",
        metavar="NAME,NAME...",
        help=f"Systems under test, with commas: {', '.join(system_names())}.",
        autocompletion=complete_systems,
    ),
]
ScenariosOfEach: TypeAlias = Annotated[
    int, typer.Option("--scenarios", min=1, help="Number of scenarios of each family on each system.")
]
Scenarios: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--scenarios",
        min=0,
        help="Number of scenarios to run. Default: 1,000, and on a real system as many as 300 s allow.",
    ),
]
MaxTime: TypeAlias = Annotated[
    float | None, typer.Option("--max-time", min=0, metavar="SECONDS", help="Stop after this time.")
]
Seed: TypeAlias = Annotated[
    int,
    typer.Option("--seed", min=LEAST_SEED, max=LARGEST_SEED, help="Seed from which all scenarios are drawn."),
]
# The default is None: pyproject.toml may set what the command line leaves out.
RunSeed: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--seed",
        callback=_fitting_seed,
        help="Seed from which all scenarios are drawn.",
        show_default="0",
    ),
]
RunSystem: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--system",
        help=f"System under test: {', '.join(system_names())}.",
        show_default="simulated; command for a FILE.toml",
        autocompletion=complete_system,
    ),
]
ShownSystem: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--system",
        metavar="NAME",
        help=f"Show this system only: {', '.join(system_names())}. Default: all.",
        autocompletion=complete_system,
    ),
]
Workers: TypeAlias = Annotated[
    int | None,
    typer.Option("-n", "--workers", min=1, help="Number of worker processes. Default: one per processor."),
]
ShrinkRuns: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--shrink-runs",
        min=0,
        metavar="N",
        help="Shrink each failure in at most N runs.",
        show_default="1,000 in the simulation, 0 on a real system",
    ),
]
ScenarioTime: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--scenario-time",
        min=0.1,
        metavar="SECONDS",
        help="Processor time of a simulated scenario, after which it has failed.",
        show_default="60",
    ),
]
Bisect: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--bisect",
        help="For `git bisect run`: exit with 125, which skips the commit, where there is no verdict.",
    ),
]
NightMaxTime: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--max-time",
        min=0,
        metavar="SECONDS",
        help="Stop the campaign after this time, if it has reached its minimums.",
        show_default="60",
    ),
]
NightLimitTime: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--limit-time",
        min=0,
        metavar="SECONDS",
        help="Stop the campaign after this time, even if it has not reached them.",
        show_default="1800",
    ),
]
LeastScenarios: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--least-scenarios",
        min=0,
        metavar="N",
        help="Minimum number of scenarios of each family.",
        show_default="100",
    ),
]
LeastKills: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--least-kills",
        min=0,
        metavar="N",
        help="Minimum number of kills under which each property is checked.",
        show_default="20",
    ),
]
NightSeed: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--seed",
        callback=_fitting_seed,
        help="Seed of the night.",
        show_default="another one each night",
    ),
]
ExplainShrinkRuns: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--shrink-runs",
        min=0,
        metavar="N",
        help="Shrink the scenario in at most N runs before it is explained; 0: explain it as it is.",
        show_default="1,000 in the simulation, 40 on a real system",
    ),
]
ExplainOut: TypeAlias = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="Folder for the page and the scenario files.")
]
Master: TypeAlias = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="Spark master. Default: all cores of this machine."),
]
SparkSettings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--conf", metavar="KEY=VALUE", help="Set an option of Spark, as spark-submit does; repeatable."
    ),
]
PropertiesFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--properties-file", metavar="FILE", help="File of Spark's options, such as conf/spark-defaults.conf."
    ),
]
RunFolder: TypeAlias = Annotated[
    Path | None, typer.Option("--out", help="Folder for the results.", show_default="reports/out/run")
]
Junit: TypeAlias = Annotated[
    Path | None,
    typer.Option("--junit", metavar="FILE", help="Also write a JUnit XML file.", show_default=False),
]
AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print the result on stdout as one JSON document.")
]
AsProgram: TypeAlias = Annotated[
    bool, typer.Option("--as-program", help="Print a job that is drawn as a program, and run nothing.")
]
ShareOfRun: TypeAlias = Annotated[
    int,
    typer.Option(
        "--share",
        min=1,
        metavar="N",
        help="Run one of N parts of the scenarios; `onceproof merge` makes one report of all.",
    ),
]
FirstOfShare: TypeAlias = Annotated[
    int,
    typer.Option("--first", min=0, metavar="N", help="Number of the share to run, from 0, modulo --share."),
]
UntilExhausted: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--until-exhausted",
        min=1,
        metavar="N",
        help="End a family early when its last N scenarios reached no new situation, fault or state.",
    ),
]
ComparesSql: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--sql/--no-sql", help="Also compare the rows of oracle_sql, on Spark. Default: if installed."
    ),
]
Trace: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--trace",
        help="Print the events of the run up to the failure; checkpoints of nothing new share a line.",
    ),
]
TracedTasks: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--task", metavar="TASK", help="Print the events of this task or vertex only; repeatable."),
]
Subject: TypeAlias = Annotated[
    str, typer.Argument(metavar="SEED|FILE.json", help="A scenario's seed, or its JSON file.")
]
OneFamily: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--family",
        metavar="FAMILY|FILE",
        help="Family of the scenario; needed with a seed, or if the family is not built in.",
        autocompletion=complete_family,
    ),
]
CheckpointPath: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="PATH", help="A checkpoint, a folder that contains checkpoints, or an address (s3://...)."
    ),
]
JobToRun: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="FAMILY|FILE.py",
        help="A family, or a program that executes a job.",
        autocompletion=complete_family,
    ),
]
JobSubject: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="JOB",
        help="A family, a program, the id or name of a job, its checkpoint folder, or its REST address.",
    ),
]
JobsFolder: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--jobs",
        metavar="DIR",
        help="Folder in which `job run` registers its jobs.",
        show_default=".onceproof/jobs",
    ),
]
SavepointFolder: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--directory",
        "--savepointPath",
        "-s",
        metavar="DIR",
        help="Write the savepoint below this folder. Default: the savepoint folder of the job.",
    ),
]
AnswerTimeout: TypeAlias = Annotated[
    float,
    typer.Option("--timeout", min=0, metavar="SECONDS", help="Time to wait for the answer of the job."),
]
