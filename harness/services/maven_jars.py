"""Fetches pinned jars by Maven, once for each user, for the servers that are Java programs.

The rules this module lives by:

- A pom in the package pins the versions; Maven fetches the jars into the user's cache. Jars that are there
  are used without the network.
- Another pom is another folder, so a cache never mixes two versions.
- One process at a time makes something in a folder; others wait. It is made under another name and renamed
  when it is whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from onceproof.engine.file_locks import hold_lock, release_lock
from onceproof.harness.services.service import ServiceError, ServiceMissing, last_lines, user_cache

JARS: Final = "jars"
_FETCH_S: Final = 900.0
_ERROR: Final = "ERROR]"
_POM: Final = (
    '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    "<groupId>onceproof</groupId><artifactId>connectors</artifactId><version>1</version>"
    "<packaging>pom</packaging><dependencies>{}</dependencies><build><plugins><plugin>"
    "<groupId>org.apache.maven.plugins</groupId><artifactId>maven-dependency-plugin</artifactId>"
    "<version>3.8.1</version></plugin></plugins></build></project>"
)


def jars_folder(pom: Path, name: str, server: str) -> Path:
    """Return the folder of the cache whose ``jars`` are those of a pom; they are fetched if need be.

    Args:
        pom: the file that pins the versions.
        name: how the folder's name begins.
        server: the server that needs the jars, for errors, such as "Kafka's broker".

    Raises:
        ServiceMissing: there is no Maven.
        ServiceError: Maven fails, or the cache cannot be written.
    """
    folder = user_cache() / f"{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    if not (folder / JARS).is_dir():
        with alone_in(folder):
            if not (folder / JARS).is_dir():
                _fetch(pom, folder, server)
    return folder


def jars_of(coordinates: Sequence[str], user: str) -> list[Path]:
    """Return the jars of Maven coordinates (GROUP:ARTIFACT:VERSION) and of what they need.

    Args: user: who needs them, for errors. Raises what ``jars_folder`` does.
    """
    if not coordinates:
        return []
    needed = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency>"
        for group, artifact, version in (each.split(":") for each in coordinates)
    )
    with tempfile.NamedTemporaryFile("w", suffix=".xml", encoding="utf-8") as pom:
        pom.write(_POM.format(needed))
        pom.flush()
        return sorted((jars_folder(Path(pom.name), "connectors", user) / JARS).glob("*.jar"))


def run_to_end(command: list[str], folder: Path, log: Path, seconds: float, failure: str) -> None:
    """Run a command in a folder. Raises ServiceError, which begins with ``failure``."""
    with log.open("wb") as output:
        try:
            code = subprocess.run(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=seconds,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            raise ServiceError(f"{failure}: no end after {seconds:.0f} s; is the network there?") from None
    if code:
        # Maven says first what is wrong, and then at length where to read about it.
        errors = [line for line in log.read_text(errors="replace").splitlines() if _ERROR in line]
        said = errors[0].partition(_ERROR)[2].strip() if errors else last_lines(log, 3)
        raise ServiceError(f"{failure}: {said[:500]}")


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other process makes something in the folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise ServiceError(
            f"{folder}: the cache cannot be written ({error.strerror}):"
            " set XDG_CACHE_HOME to a folder of yours"
        ) from error
    hold_lock(descriptor, wait=True)
    try:
        yield
    finally:
        release_lock(descriptor)


def _fetch(pom: Path, cache: Path, server: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ServiceMissing(
            f"{server} is fetched by Maven, and no mvn is on PATH: install it (on Debian: apt-get"
            f" install maven), or put the jars of {pom} and all they need into {cache / JARS}"
        )
    with tempfile.TemporaryDirectory(dir=cache, prefix="fetching-") as name:
        folder = Path(name)
        # Maven takes a folder; the pom lies in the package, which may be read-only.
        shutil.copy(pom, folder / "pom.xml")
        command = [maven, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={JARS}"]
        failure = f"mvn cannot fetch the jars of {server}"
        run_to_end([*command, "-DincludeScope=runtime"], folder, folder / "log", _FETCH_S, failure)
        (folder / JARS).replace(cache / JARS)
