"""The options of `onceproof flink`, the command for the Apache Flink that `--system flink` puts on trial.

Slow imports stand inside the subcommands, for the same reason as in `onceproof.harness.commands.cli`.
"""

from __future__ import annotations

import typer

from onceproof.harness.commands.shared_options import AsJson

flink = typer.Typer(help="Install the Apache Flink that --system flink runs.", no_args_is_help=True)


@flink.callback()
def group() -> None:
    """Install the Apache Flink that --system flink runs."""


@flink.command("install")
def install(as_json: AsJson = False) -> None:
    """Install Flink into your cache, once: minutes and a gigabyte."""
    import json

    from onceproof.harness.systems.flink.cluster import archive_classes
    from onceproof.harness.systems.flink.home import VERSION, install_flink

    home = install_flink()
    archive_classes(home)
    if as_json:
        print(json.dumps({"version": VERSION, "home": str(home.home)}))
    else:
        print(f"Apache Flink {VERSION} is in {home.home}")
