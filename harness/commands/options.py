"""The options that several commands share, each declared once, so that it means the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

Families: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FAMILY|FILE.py]...", help="Families; all built-in ones if none is named or set."
    ),
]
Scenarios: TypeAlias = Annotated[int | None, typer.Option("--scenarios", min=0, help="How many scenarios.")]
MaxTime: TypeAlias = Annotated[
    float | None, typer.Option("--max-time", min=0, metavar="SECONDS", help="For how long.")
]
Seed: TypeAlias = Annotated[int, typer.Option("--seed", help="Decides every scenario.")]
# Without a default of their own: what is not named may be set in pyproject.toml.
RunSeed: TypeAlias = Annotated[
    int | None, typer.Option("--seed", help="Decides every scenario.", show_default="0")
]
RunSystem: TypeAlias = Annotated[
    str | None, typer.Option("--system", help="What stands trial.", show_default="simulated")
]
Workers: TypeAlias = Annotated[
    int | None, typer.Option("-n", "--workers", min=1, help="Processes; as many as processors if not given.")
]
SHRINK_SECONDS: Final = "5 simulated, 120 where runs are real"
ShrinkTime: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--shrink-time",
        min=0,
        metavar="SECONDS",
        help="For how long each failure is shrunk; the run under way is finished.",
        show_default=SHRINK_SECONDS,
    ),
]
ShrinkMaxTime: TypeAlias = Annotated[
    float | None,
    typer.Option("--max-time", min=0, metavar="SECONDS", help="For how long.", show_default=SHRINK_SECONDS),
]
ExplainMaxTime: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--max-time",
        min=0,
        metavar="SECONDS",
        help="For how long it is shrunk before, where runs are real.",
        show_default="120",
    ),
]
ExplainOut: TypeAlias = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="Where the page and the scenarios go.")
]
Junit: TypeAlias = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML as well.", show_default=False)
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Subject: TypeAlias = Annotated[str, typer.Argument(metavar="SEED|FILE.json", help="A seed, or a scenario.")]
OneFamily: TypeAlias = Annotated[
    str | None, typer.Option("--family", metavar="FAMILY|FILE.py", help="The family of the scenario.")
]
System: TypeAlias = Annotated[str, typer.Option("--system", help="What stands trial.")]
CheckpointPath: TypeAlias = Annotated[
    str, typer.Argument(metavar="PATH", help="A checkpoint, or a folder, or an address such as s3://...")
]
JobSubject: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="FAMILY|FILE.py|DIR", help="A family, a program, or a job's folder."),
]
JobsFolder: TypeAlias = Annotated[
    Path | None,
    typer.Option("--jobs", metavar="DIR", help="Where jobs are noted.", show_default=".onceproof/jobs"),
]
SavepointFolder: TypeAlias = Annotated[
    Path | None, typer.Option("--directory", metavar="DIR", help="Below which folder the savepoint goes.")
]
Patience: TypeAlias = Annotated[
    float, typer.Option("--timeout", min=0, metavar="SECONDS", help="For how long an answer is waited for.")
]
