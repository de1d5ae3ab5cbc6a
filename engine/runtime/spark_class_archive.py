"""The class data archive of Spark, which Java maps at its start instead of reading the jars.

The rules this module lives by:

- Half of the time of a start goes into reading, checking and linking some fifteen thousand classes. Java can
  write the loaded classes to an archive when it ends, and map it at the next start (class data sharing, JEP
  350). `make setup` makes such an archive with `spark_class_training`.
- An archive that does not match is harmless: Java compares it with itself, its options and the jars (times
  and sizes), and reads the classes as usual. So a session only names the archive. Its file name depends on
  the installed Java and Spark, so `make setup` knows whether it has to make one.
- The class path is part of the archive: an empty configuration folder, then the jars. The links of the
  archive are in its own folder, which stays; the links of a session lead to the same files.
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
"""The archive of Java's own classes, for installations without one."""


def archive_folder() -> Path:
    """Return the folder of the archive, in the virtual environment of this Python."""
    return Path(sys.prefix) / "spark-classes"


def archive_for(java: JavaInstallation) -> Path:
    """Return the path of the archive for a Java and the installed Spark; the file may not exist."""
    jars = package_folder() / "jars"
    try:
        release = (java.home / "release").read_bytes()
    except OSError:
        release = b""
    named_after = (release, java.home.resolve(), jars, jars.stat().st_mtime_ns)
    return archive_folder() / (hashlib.sha256(repr(named_after).encode()).hexdigest()[:16] + SUFFIX)


def quick_start_options(java: JavaInstallation) -> list[str]:
    """Return the options with which a Java of Spark starts quickly."""
    # Use the quick compiler only: jobs here last seconds, and the slow one would compete with Python.
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"]
    archive = archive_for(java)
    if archive.exists():
        base = archive_folder() / BASE
        both = f"{base}:{archive}" if base.exists() else str(archive)
        # Without this, Java would log every archive that does not match.
        options += [f"-XX:SharedArchiveFile={both}", "-Xlog:cds*=off"]
    return options


def link_home(folder: Path) -> None:
    """Make a new folder ``folder / "home"`` of links to Spark, and an empty ``folder / "conf"``.

    The folder `python` is left out: workers would import pyspark from its archive, in twice the time.
    """
    (folder / "home").mkdir(parents=True)
    for part in ("bin", "jars", "sbin"):
        (folder / "home" / part).symlink_to(package_folder() / part)
    shared = archive_folder() / "conf"
    conf = folder / "conf"
    if shared.is_dir() and conf != shared:
        conf.symlink_to(shared)
    else:
        conf.mkdir()


def home_variables(folder: Path, java: JavaInstallation) -> dict[str, str]:
    """Return the environment variables with which Spark finds its home and its Java by links in a folder."""
    return {
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(folder / "home"),
        # An empty folder, so that no spark-defaults.conf of the machine joins in.
        "SPARK_CONF_DIR": str(folder / "conf"),
    }


def package_folder() -> Path:
    """Return the folder of pyspark without importing it, which takes half a second."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent
