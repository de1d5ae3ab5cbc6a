"""The options that say something of a script, and the addresses that carry them to every process.

Rules:

- What follows ``--`` on the command line are the arguments of the script.
- An address holds paths relative to the folder of the script, so it means the same in another folder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TextIO, TypeAlias
from urllib.parse import urlencode

import typer

from onceproof.harness.model.exit_codes import UsageError

if TYPE_CHECKING:
    from onceproof.harness.model.family import Family

Samples: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--sample",
        metavar="NAME=FILE",
        help="Records of a source of a program or query: lines of JSON, CSV, Parquet or text; repeatable.",
    ),
]
JobName: TypeAlias = Annotated[
    str | None,
    typer.Option("--job", metavar="NAME", help="Which job of a program, or query. Default: the first."),
]

FlinkVersion: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--flink-version",
        metavar="V",
        help="Release of Flink on which the job of a FILE.toml runs.",
        show_default="the file's, else 2.3.0",
    ),
]


class Pyflink(StrEnum):
    """Where `import pyflink` leads."""

    engine = "engine"
    installed = "installed"


PyflinkOnTrial: TypeAlias = Annotated[
    Pyflink,
    typer.Option("--pyflink", help="Where `import pyflink` leads. A program on trial runs on the engine."),
]
PyflinkOfJob: TypeAlias = Annotated[
    Pyflink | None,
    typer.Option(
        "--pyflink",
        help="Where `import pyflink` leads.",
        show_default="the installed PyFlink, else the engine",
    ),
]
Arguments: TypeAlias = Annotated[list[str] | None, typer.Option("--argument", hidden=True)]
COMMANDS: Final = ("campaign", "check", "explain", "init", "mutants", "replay", "run", "upgrade")
"""The commands that take a script, and behind -- its arguments."""
_SEPARATOR: Final = "--"


def with_arguments(given: Sequence[str]) -> list[str]:
    """Return a command line whose arguments of a script, behind --, are options."""
    if not given or given[0] not in COMMANDS or _SEPARATOR not in given:
        return list(given)
    place = given.index(_SEPARATOR)
    return [*given[:place], *[f"--argument={each}" for each in given[place + 1 :]]]


def addresses_of(
    asked: Sequence[str] | None,
    samples: Sequence[str] | None,
    job: str | None,
    arguments: Sequence[str] | None,
    pyflink: Pyflink = Pyflink.engine,
) -> list[str]:
    """Return the addresses with what the options say of the scripts among them. Raises UsageError."""
    if pyflink is not Pyflink.engine:
        raise UsageError(
            "--pyflink installed: what is tested is the engine's graph of a program; on PyFlink it runs with"
            " --system flink"
        )
    if not (samples or job or arguments):
        return list(asked or ())
    found = [_address(each, samples or (), job, arguments or ()) for each in asked or ()]
    if found == list(asked or ()):
        raise UsageError(
            "--sample, --job and arguments behind -- belong to a program or query: name its file"
        )
    return found


def _address(asked: str, samples: Sequence[str], job: str | None, arguments: Sequence[str]) -> str:
    # It imports the engine, which no help needs.
    from onceproof.harness.model.family_places import WORDS, is_script, is_sql, joined_address, split_address

    path, said = split_address(asked)
    if path is None or said or not (is_sql(path) or is_script(path)):
        return asked
    words = [("job", job)] if job else []
    for sample in samples:
        name, separator, file = sample.partition("=")
        if not separator:
            raise UsageError(f"--sample {sample}: give NAME=FILE, as in --sample orders=orders.jsonl")
        if not Path(file).is_file():
            raise UsageError(f"--sample {sample}: {file}: no such file")
        words.append(("sample", f"{name}={os.path.relpath(file, path.parent)}"))
    words += [("argument", each) for each in arguments]
    return joined_address(path, WORDS + urlencode(words, safe="=/"))


def with_flink_version(addresses: Sequence[str], version: str | None) -> list[str]:
    """Return the addresses of jobs of Flink that run on a release. Raises UsageError."""
    from onceproof.harness.model.family_places import WORDS, is_program
    from onceproof.harness.model.program_family import RELEASE

    for address in addresses if version else ():
        if not is_program(address) or WORDS in address:
            raise UsageError(f"--flink-version: {address} is not the FILE.toml of a job of Flink")
    return [f"{each}{WORDS}{RELEASE}={version}" if version else each for each in addresses]


def upgrade_address(old: Path, address: str, is_allowed: bool) -> str:
    """Return the address of an upgrade from a script to the one at an address. Raises UsageError."""
    from onceproof.harness.model.family_places import (
        UPGRADES,
        WORDS,
        is_program,
        is_script,
        is_sql,
        joined_address,
        program_path,
        split_address,
    )
    from onceproof.harness.scripts.upgrade_family import ALLOWED

    if is_program(str(old)) and is_program(address):
        new = program_path(address)
        return f"{new}{WORDS}{urlencode([(UPGRADES, os.path.relpath(old, new.parent))], safe='/')}"
    path, said = split_address(address)
    for file in (old, path or Path(address)):
        if not file.is_file():
            raise UsageError(f"{file}: no such file")
        if is_sql(file) != is_sql(old) or not (is_sql(file) or is_script(file)):
            raise UsageError(
                f"{file}: upgrade compares two PyFlink programs, or two scripts or plans of SQL; a family has"
                " its new version in its options, as FamilyOptions(upgraded=...)"
            )
    assert path is not None, "a script has a file"
    words = [(UPGRADES, os.path.relpath(old, path.parent)), *([(ALLOWED, "")] if is_allowed else [])]
    following = f"{said}&" if said else WORDS
    return joined_address(path, following + urlencode(words, safe="=/"))


def print_notes_on(system: str, asked: str, family: Family) -> None:
    """Say on stderr what is different about a script of SQL on another engine."""
    from onceproof.harness.model.family_places import statements_of
    from onceproof.harness.model.system import reason_against

    if (script := statements_of(family)) is not None and not reason_against(system, family):
        for note in script.notes_on(system):
            print(f"{asked}: {note}", file=sys.stderr)


def print_notes(asked: str, family: Family, file: TextIO) -> bool:
    """Say what a script's job reads and writes, and how it is judged; return False for any other family."""
    from onceproof.harness.scripts.query_family import QueryFamily
    from onceproof.harness.scripts.script_family import ScriptFamily
    from onceproof.harness.scripts.sql.sql_family import SqlFamily
    from onceproof.harness.scripts.sql.sql_upgrade import SqlUpgradeFamily
    from onceproof.harness.scripts.upgrade_family import UpgradeFamily

    scripts = ScriptFamily | QueryFamily | UpgradeFamily | SqlFamily | SqlUpgradeFamily
    if not isinstance(family, scripts):
        return False
    for note in family.notes():
        print(f"{asked}: {note}", file=file)
    return True
