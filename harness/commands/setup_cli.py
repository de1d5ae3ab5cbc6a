"""The options of `onceproof init`, `doctor`, `completion` and `flink`: the commands that set something up.

Slow imports stand inside the functions, for the same reason as in `onceproof.harness.commands.cli`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onceproof.harness.commands.completion import Shell, script_of
from onceproof.harness.commands.script_options import Arguments, JobName, Samples, addresses_of
from onceproof.harness.commands.services_cli import FOLDER
from onceproof.harness.commands.services_cli import Folder as ServicesFolder
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


NEW_FOLDER = Path("exactly-once")


def init(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="The new folder.")] = NEW_FOLDER,
    program: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="FILE.py",
            help="Write the family of this PyFlink program; only its expected rows are left to fill in.",
            show_default=False,
        ),
    ] = "",
    samples: Samples = None,
    job: JobName = None,
    arguments: Arguments = None,
    source: Annotated[
        str,
        typer.Option(
            "--install-from",
            metavar="SOURCE",
            help="What the workflow's pip installs: git+https://HOST/OWNER/onceproof@v0.2.0, a wheel, or"
            " onceproof==0.2.0. Default: where this installation came from.",
            show_default=False,
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Write a family, a test and a workflow into a new folder; they run as they are."""
    from onceproof.harness.commands.init import init_command

    [address] = addresses_of([program], samples, job, arguments)
    raise typer.Exit(init_command(folder, as_json, source, address))


def doctor(services: ServicesFolder = FOLDER, as_json: AsJson = False) -> None:
    """Check whether this machine has what the commands need. Exit code 1: something must be fixed."""
    from onceproof.harness.commands.doctor import doctor_command

    raise typer.Exit(doctor_command(services, as_json))


def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell that evaluates the script.")],
) -> None:
    """Print the script that completes this command in a shell: eval "$(onceproof completion bash)"."""
    print(script_of(shell))
