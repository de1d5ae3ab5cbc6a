"""Python environments of programs on trial, with the packages that their files name.

Rules:

- Other engines' packages clash with ours and with each other's. So each list of packages has an environment
  of its own, in the user's cache, and the program runs with its Python.
- An environment is made once for a list and a version of Python. One process makes it; others wait. It counts
  when its list is there, which is written last.
- pip fetches the packages from where its own settings say.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from onceproof.harness.services.maven_jars import alone_in, run_to_end
from onceproof.harness.services.service import user_cache

_INSTALL_S: Final = 1800.0
_LISTED: Final = "packages.json"


def python_with(packages: Sequence[str]) -> str:
    """Return the Python of the environment that has these packages, which is made if need be.

    Args:
        packages: as pip takes them, such as "bytewax==0.21.1"; none: the Python of the harness.

    Raises:
        ServiceError: they cannot be installed, or the cache cannot be written.
    """
    return _python_in(_environment(packages)) if packages else sys.executable


def folder_with(packages: Sequence[str]) -> Path:
    """Return the folder from which these packages are imported, which is made if need be.

    The arguments and errors are those of ``python_with``.
    """
    environment = str(_environment(packages))
    return Path(sysconfig.get_path("purelib", vars={"base": environment, "platbase": environment}))


def _environment(packages: Sequence[str]) -> Path:
    listed, folder = _listed(packages)
    if not (folder / _LISTED).is_file():
        with alone_in(folder):
            if not (folder / _LISTED).is_file():
                _install(packages, folder, listed)
    return folder


def installed_python(packages: Sequence[str]) -> str | None:
    """Return the Python of the environment that has these packages; None if it has not been made."""
    _, folder = _listed(packages)
    return _python_in(folder) if (folder / _LISTED).is_file() else None


def _listed(packages: Sequence[str]) -> tuple[str, Path]:
    """Return what stands in the list of an environment, and its folder."""
    listed = json.dumps([sys.version_info[:2], sorted(packages)])
    return listed, user_cache() / f"packages-{hashlib.sha256(listed.encode()).hexdigest()[:12]}"


def _python_in(folder: Path) -> str:
    return str(folder / "bin" / "python")


def _install(packages: Sequence[str], folder: Path, listed: str) -> None:
    # An environment knows its own place: it is made there, and counts when its list is there.
    for left in ("bin", "lib", "include", "lib64", "pyvenv.cfg"):
        path = folder / left
        if path.is_symlink() or path.is_file():
            path.unlink()
        else:
            shutil.rmtree(path, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="onceproof-packages-") as name:
        log = Path(name) / "log"
        failure = f"the packages {', '.join(packages)} cannot be installed"
        # Our own pip installs into it, if there is one: a pip of its own takes seconds.
        has_pip = importlib.util.find_spec("pip") is not None
        make = [sys.executable, "-m", "venv", *(["--without-pip"] if has_pip else []), str(folder)]
        run_to_end(make, Path(name), log, _INSTALL_S, failure)
        python = str(folder / "bin" / "python")
        pip = [sys.executable, "-m", "pip", "--python", python] if has_pip else [python, "-m", "pip"]
        install = [*pip, "install", "--quiet", "--no-input", "--disable-pip-version-check", "--", *packages]
        run_to_end(install, Path(name), log, _INSTALL_S, failure)
    (folder / f"{_LISTED}.new").write_text(listed, encoding="utf-8")
    (folder / f"{_LISTED}.new").replace(folder / _LISTED)
