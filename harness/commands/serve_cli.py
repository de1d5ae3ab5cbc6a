"""The options of `onceproof serve`, the command that shows all runs below a folder.

Slow imports stand inside the function, for the same reason as in `onceproof.harness.commands.cli`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onceproof.harness.commands.shared_options import AsJson

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
