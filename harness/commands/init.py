"""`onceproof init`: a family, a test and a workflow in a new folder, which run as they are.

The rules this module lives by:

- The files are those of `starter/`, with `.txt` behind their names there, so that no tool takes them for
  ours. The family is the one of the page "Writing a family", or that of a program of PyFlink, with everything
  but its expected rows.
- Nothing is overwritten: where one of the files is already there, none is written.
- `requirements.txt` names what another machine can install: the repository or the file of which this
  installation was made. One made from a folder names nothing of that kind: then a line asks the user for it.
"""

from __future__ import annotations

import os
import re
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final

import msgspec

from onceproof.harness.model.exit_codes import PASSED, UsageError
from onceproof.harness.model.family_places import is_query, is_script, load_family, split_address

STARTER: Final = Path(__file__).parent / "starter"
FAMILY: Final = "sales.py"
FILES: Final = {
    FAMILY: "a family: a job, a generator of its input, the rows that should come out",
    "test_sales.py": "a test of 200 scenarios, and of those kept in `regressions`",
    "pyproject.toml": "settings: `onceproof run` runs the family",
    "requirements.txt": "what the workflow installs",
    "regressions/README.md": "the folder of the scenarios that failed once",
    ".gitignore": "what runs leave",
    ".github/workflows/onceproof.yml": "the tests for each change, ten minutes of scenarios each night",
}
"""By path below the new folder, what a file is."""

_SOURCES: Final = {
    "regressions/README.md": "regressions.md.txt",
    ".gitignore": "gitignore.txt",
    ".github/workflows/onceproof.yml": "workflow.yml.txt",
}


PACKAGE: Final = "onceproof"
REQUIREMENTS: Final = "requirements.txt"
_PLACE: Final = f"{PACKAGE}\n"
_HOST_UNKNOWN: Final = f"git+https://HOST/OWNER/{PACKAGE}@v"


def requirement(source: str) -> str:
    """Return the line by which another machine installs this package.

    ``source`` is what the user names: an address, a file, or a requirement such as onceproof==0.2.0; "": that
    of this installation.
    """
    if source:
        if len(source.split()) != 1:
            raise UsageError(
                f"--install-from {source!r}: give one address, file or requirement, without spaces"
            )
        return source if source.startswith(PACKAGE) else f"{PACKAGE} @ {source}" if ":" in source else source
    installed = distribution(PACKAGE)
    # PEP 610: there is no such file where an index of packages gave it.
    text = installed.read_text("direct_url.json")
    if text is None:
        return f"{PACKAGE}=={installed.version}"
    found: dict[str, Any] = msgspec.json.decode(text)
    url, vcs = found["url"], found.get("vcs_info")
    if vcs is not None:
        return f"{PACKAGE} @ {vcs['vcs']}+{url}@{vcs['commit_id']}"
    if url.startswith("file:"):
        return f"{PACKAGE} @ {_HOST_UNKNOWN}{installed.version}"
    return f"{PACKAGE} @ {url}"


def init_command(folder: Path, as_json: bool, source: str = "", program: str = "") -> int:
    """Write the files below ``folder``, print what they are, and return the exit code.

    Args:
        source: where other machines install this package from; "": where this one has it from.
        program: the address of the program of PyFlink for which the family is; "": the family of the docs.
    """
    wanted = requirement(source)
    files = _files(folder, program)
    for name in files:
        if (folder / name).exists() or (folder / name).is_symlink():
            raise UsageError(f"{folder / name}: is already there, so nothing is written: name a new folder")
    for name, (_, text) in files.items():
        if name == REQUIREMENTS:
            text = text.replace(_PLACE, f"{wanted}\n")
        _write(folder / name, text.encode())
    if as_json:
        document = {
            "folder": str(folder),
            "files": [str(folder / name) for name in files],
            "requirement": wanted,
        }
        print(msgspec.json.encode(document).decode())
        return PASSED
    width = max(map(len, files))
    for name, (purpose, _) in files.items():
        print(f"{name:<{width}}  {purpose}")
    if _HOST_UNKNOWN in wanted:
        print(
            f"{REQUIREMENTS}: put the repository from which the workflow installs {PACKAGE} in the place of"
            " HOST/OWNER, or run init with --install-from"
        )
    inside = "" if folder.resolve() == Path.cwd() else f"cd {folder} && "
    family = next(iter(files))
    first = f"fill in expected() in {folder / family}, then " if program else ""
    print(f"next: {first}{inside}onceproof check {family} && onceproof run && pytest")
    return PASSED


def _files(folder: Path, program: str) -> dict[str, tuple[str, str]]:
    """Return by path below the new folder what a file is, and its text; the family comes first."""
    texts = {name: (STARTER / _SOURCES.get(name, f"{name}.txt")).read_text("utf-8") for name in FILES}
    if not program:
        return {name: (purpose, texts[name]) for name, purpose in FILES.items()}
    stem, family = _family_of(folder, program)
    words = {FAMILY: f"{stem}_family.py", "sale": "record"}
    texts = {
        name: re.sub(r"sales\.py|sale", lambda found: words[found[0]], text) for name, text in texts.items()
    }
    texts[FAMILY] = family
    purposes = FILES | {FAMILY: "the family: all but the rows that should come out, in expected()"}
    names = {FAMILY: words[FAMILY], "test_sales.py": f"test_{stem}.py"}
    return {names.get(name, name): (purposes[name], texts[name]) for name in FILES}


def _family_of(folder: Path, program: str) -> tuple[str, str]:
    """Return the stem of the name of a program, and the text of its family. Raises UsageError."""
    path, said = split_address(program)
    if path is None or path.suffix != ".py":
        raise UsageError(
            f"--from {program}: give a program, FILE.py; where pip has {PACKAGE} from is --install-from"
        )
    if not path.is_file():
        raise UsageError(f"--from {program}: no such file")
    if is_query(path):
        raise UsageError(
            f"--from {program}: a query is judged by itself in batch mode, so its family would say nothing"
            f" more: run onceproof run {program}; to state the rows yourself, give a family the query as its"
            " option jobs"
        )
    if not said and not is_script(path):
        raise UsageError(f"--from {program}: it is a family already: run onceproof check {path}")
    from onceproof.harness.scripts.written_family import family_text

    script: Any = load_family(program)
    template = (STARTER / "program_family.py.txt").read_text("utf-8")
    text = family_text(template, script, os.path.relpath(path.absolute(), folder.absolute()))
    return re.sub(r"\W", "_", path.stem), text


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Exclusively: a file that has come meanwhile is not overwritten.
        with path.open("xb") as file:
            file.write(content)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None
