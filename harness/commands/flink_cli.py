"""The options of `onceproof flink`, the command for the Apache Flink that `--system flink` puts on trial.

Slow imports stand inside the subcommands, for the same reason as in `onceproof.harness.commands.cli`.
"""

from __future__ import annotations

import typer

flink = typer.Typer(help="Install the Apache Flink that --system flink puts on trial.", no_args_is_help=True)


@flink.callback()
def group() -> None:
    """Install the Apache Flink that --system flink puts on trial."""


@flink.command("install")
def install() -> None:
    """Install Flink into your cache, once: minutes and a gigabyte."""
    from onceproof.harness.systems.flink.flink_cluster import archive_classes
    from onceproof.harness.systems.flink.flink_home import VERSION, install_flink

    home = install_flink()
    archive_classes(home)
    print(f"Apache Flink {VERSION} is in {home.home}")
