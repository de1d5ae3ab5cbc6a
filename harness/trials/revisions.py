"""Which code a report is about: the commit of onceproof, and that of the families on trial.

Rules:

- A checkout is named by its commit, with a `+` where the code differs from it. An installed copy is named by
  its version: a repository that happens to hold the environment says nothing about it.
- A user's family is named by the commit of the repository that holds its file, with a `+` where a file of the
  repository has changed, or where the family's file is not in the commit.
- What git cannot say (no git, no commit yet, a repository of another user) is left out, never guessed.
- Hooks of git set variables that name another repository, so git runs without them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Final

from onceproof.harness.model.family_places import is_program, program_path, split_address

ROOT: Final = Path(__file__).resolve().parents[2]
"""The checkout, or in an installed copy the folder of the package."""

_CODE: Final = ("engine/**/*.py", "harness/**/*.py", "reports/*.py", "scenarios/**/*.py")
_SECONDS: Final = 60.0


def engine_version(root: Path = ROOT) -> str:
    """Return the commit of the checkout that is running, such as `1a2b3c4+`, or the installed version."""
    commit = commit_of(root, [f":(glob){pattern}" for pattern in _CODE]) if (root / ".git").exists() else ""
    return commit or metadata.version("onceproof")


def families_version(addresses: Iterable[str], root: Path = ROOT) -> str:
    """Return the commits of the repositories with the files of some families, such as `shop 1a2b3c4+`.

    ``addresses`` are those of the command line. Built-in families and files in the checkout of onceproof are
    left out: they belong to the commit that ``engine_version`` returns.
    """
    files: dict[Path, list[str]] = {}
    for address in addresses:
        path = program_path(address) if is_program(address) else split_address(address)[0]
        if path is None:
            continue
        path = path.resolve()
        top = _git(path.parent, "rev-parse", "--show-toplevel")
        if top and Path(top) != root:
            files.setdefault(Path(top), []).append(f":(top,literal){path.relative_to(top)}")
    commits = [(top.name, commit_of(top, own)) for top, own in sorted(files.items())]
    return ", ".join([f"{name} {commit}" for name, commit in commits if commit])


def commit_of(folder: Path, own: Iterable[str] = ()) -> str:
    """Return the commit of a folder's repository, with a `+` for changes; "" if git knows none.

    ``own`` are patterns of files that count as changes where the commit does not have them.
    """
    commit = _git(folder, "rev-parse", "--short", "HEAD")
    if not commit:
        return ""
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    if not changed and (patterns := list(own)):
        changed = _git(folder, "ls-files", "--others", "--", *patterns)
    return f"{commit}+" if changed else commit


def _git(folder: Path, *arguments: str) -> str:
    """Return what git prints about a folder; "" if it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        return subprocess.run(
            ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-C", str(folder), *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=_SECONDS,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
