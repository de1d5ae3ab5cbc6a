"""Spark's classes in the form in which Java maps them, so that no start has to read the jars again.

The rules this module lives by:

- Half of the work of a start is to read, check and link some fifteen thousand classes. Java can write down at
  its end what it has loaded, and map that at the next start (class data sharing, JEP 350). `make setup` has
  such an archive made, by `spark_class_training`.
- An archive that does not fit is no danger: Java holds it against itself, its options and the jars, with
  their times and sizes, and reads the classes as ever. So a session only says where the archive is. What
  it is named after tells `make setup` whether there is one for what is installed now.
- The class path is part of it: an empty folder for the configuration, then the jars. Those that the archive
  was made with lie in its own folder, which stays; a session's own links lead to the same files.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from typing import Final

from onceproof.engine.runtime.java import JavaInstallation

SUFFIX: Final = ".jsa"
BASE: Final = f"base{SUFFIX}"
"""Of Java's own classes, where an installation comes without."""


def archive_folder() -> Path:
    """Where the archive lies, inside the virtual environment of this Python."""
    return Path(sys.prefix) / "spark-classes"


def archive_for(java: JavaInstallation) -> Path:
    """Where the archive for a Java and the installed Spark is, or would be."""
    jars = _package() / "jars"
    try:
        release = (java.home / "release").read_bytes()
    except OSError:
        release = b""
    named_after = (release, java.home.resolve(), jars, jars.stat().st_mtime_ns)
    return archive_folder() / (hashlib.sha256(repr(named_after).encode()).hexdigest()[:16] + SUFFIX)


def quick_start_options(java: JavaInstallation) -> list[str]:
    """With which options a Java that runs a part of Spark starts quickly."""
    # The quick compiler alone: jobs here last seconds, and the slow one would compete with Python.
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"]
    archive = archive_for(java)
    if archive.exists():
        base = archive_folder() / BASE
        both = f"{base}:{archive}" if base.exists() else str(archive)
        # That an archive is of no use is nothing to read about in every log.
        options += [f"-XX:SharedArchiveFile={both}", "-Xlog:cds*=off"]
    return options


def link_home(folder: Path) -> None:
    """Make links to Spark in ``folder / "home"``, which is not there yet, and an empty ``folder / "conf"``.

    The folder `python` stays out: workers would import pyspark from the archive in it, at twice the time.
    """
    (folder / "home").mkdir(parents=True)
    for part in ("bin", "jars", "sbin"):
        (folder / "home" / part).symlink_to(_package() / part)
    shared = archive_folder() / "conf"
    conf = folder / "conf"
    if shared.is_dir() and conf != shared:
        conf.symlink_to(shared)
    else:
        conf.mkdir()


def home_variables(folder: Path, java: JavaInstallation) -> dict[str, str]:
    """Return the environment in which a part of Spark finds itself and its Java, by the links in a folder."""
    return {
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(folder / "home"),
        # An empty folder, so that no spark-defaults.conf of the machine joins in.
        "SPARK_CONF_DIR": str(folder / "conf"),
    }


def _package() -> Path:
    """Where pyspark is installed; to import it takes half a second."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent
