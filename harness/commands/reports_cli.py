"""The options of `onceproof merge` and `serve`, the commands for runs that are over.

Slow imports stand inside the functions, for the same reason as in `onceproof.harness.commands.cli`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onceproof.harness.commands.shared_options import AsJson, Junit, ShrinkRuns, typed_command


def merge(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Folders with the results of the shares, or a single one."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Folder for the report of all.",
            show_default="reports/out/merged; a single DIR itself",
        ),
    ] = None,
    families: Annotated[
        list[str] | None,
        typer.Option("--family", metavar="FILE.py", help="A family of your own that was run; repeatable."),
    ] = None,
    history: Annotated[
        str | None,
        typer.Option(
            "--history",
            metavar="DIR|URL",
            help="Add the run as a night to this history, and draw its trend.",
            show_default=False,
        ),
    ] = None,
    shrink_runs: ShrinkRuns = None,
    junit: Junit = None,
    as_json: AsJson = False,
) -> None:
    """Make one report of the shares of a run; of a single folder, render the page again."""
    from onceproof.harness.commands.merge import Merge, merge_command
    from onceproof.harness.settings.project_settings import load_settings

    settings = load_settings()
    wanted = Merge(
        folders=tuple(folders),
        out=out,
        families=tuple(families or ()),
        history=history,
        keep=settings.nights,
        known=settings.known,
        shrink_runs=shrink_runs,
        junit=junit,
        as_json=as_json,
        command=typed_command(),
    )
    raise typer.Exit(merge_command(wanted))


PORT = 8765


def serve(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="Folder below which the runs and nights are.")
    ] = Path("reports", "out"),
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port of the loopback interface; 0: a free one.")
    ] = PORT,
    families: Annotated[
        list[str] | None,
        typer.Option(
            "--family", metavar="FILE.py", help="A family of your own whose scenarios are shown; repeatable."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show all runs below a folder in a browser: index, trend, search, any scenario replayed and drawn."""
    from onceproof.harness.commands.serve import serve_command

    raise typer.Exit(serve_command(folder, port, families or (), as_json))
