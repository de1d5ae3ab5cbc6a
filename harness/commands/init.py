"""`onceproof init`: a family, a test and a workflow in a new folder, which run as they are.

The rules this module lives by:

- The files are those of `starter/`, with `.txt` behind their names there, so that no tool takes them for
  ours. The family is the one of the page "Writing a family".
- Nothing is overwritten: where one of the files is already there, none is written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from onceproof.harness.model.exit_codes import PASSED, UsageError

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


def init_command(folder: Path, as_json: bool) -> int:
    """Write the files below ``folder``, print what they are, and return the exit code."""
    for name in FILES:
        if (folder / name).exists() or (folder / name).is_symlink():
            raise UsageError(f"{folder / name}: is already there, so nothing is written: name a new folder")
    for name in FILES:
        _write(folder / name, (STARTER / _SOURCES.get(name, f"{name}.txt")).read_bytes())
    if as_json:
        document = {"folder": str(folder), "files": [str(folder / name) for name in FILES]}
        print(msgspec.json.encode(document).decode())
        return PASSED
    width = max(map(len, FILES))
    for name, purpose in FILES.items():
        print(f"{name:<{width}}  {purpose}")
    inside = "" if folder.resolve() == Path.cwd() else f"cd {folder} && "
    print(f"next: {inside}onceproof check {FAMILY} && onceproof run && pytest")
    return PASSED


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Exclusively: a file that has come meanwhile is not overwritten.
        with path.open("xb") as file:
            file.write(content)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from None
