"""What a user asks of a Spark session: a master, and Spark's own options.

Rules:

- Options come from `--conf` and from a file that is named; `--conf` wins. A spark-defaults.conf that is not
  named is not read, because a session does not depend on the machine's environment.
- A file is read as spark-submit reads it: a file of Java properties in UTF-8. Keys of other programs are
  ignored.
- The master is the one that is named; else `spark.master` of the options; else all cores of this machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from onceproof.engine.configuration import SPARK_CONF, SPARK_MASTER, Configuration, ConfigurationError

LOCAL_MASTER: Final = "local[*,4]"
"""All cores of this machine. A task is tried four times: plain `local[*]` fails the whole job at the first
worker that dies."""

MASTER: Final = "spark.master"
REMOTE: Final = "spark.remote"
_PREFIX: Final = "spark."

_SEPARATOR: Final = re.compile(r"(?<!\\)(?:\\\\)*(\s*[=:]\s*|\s+)")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_SPECIAL: Final = re.compile(r"(?=[=: #!\\])")
_BACKSLASH: Final = r"\\"
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """A master, or None for the one in the options, and Spark's options by their names."""

    master: str | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, master: str | None, settings: Sequence[str] = (), properties_file: Path | None = None
    ) -> SparkOptions:
        """Return the options of a command line. Raises ConfigurationError.

        ``settings`` are KEY=VALUE each, and win over the file.
        """
        configuration = {} if properties_file is None else read_properties(properties_file)
        return cls(master, configuration | dict(map(_key_and_value, settings)))

    def chosen_master(self) -> str:
        """Return the master of a new session. Raises ConfigurationError for a Spark Connect server."""
        master = self.master or self.configuration.get(MASTER) or LOCAL_MASTER
        for address in (master, self.configuration.get(REMOTE, "")):
            if address.startswith("sc://"):
                raise ConfigurationError(
                    f"Spark Connect ({address}) is not supported, because its sessions run no RDD jobs: name"
                    " the cluster's master instead, such as spark://HOST:PORT, yarn or k8s://https://HOST:PORT"
                )
        return master


NO_OPTIONS: Final = SparkOptions()


def spark_options(configuration: Configuration) -> SparkOptions:
    """Return what the configuration of a job asks of Spark."""
    conf: dict[str, str] | None = configuration.get(SPARK_CONF)
    return SparkOptions(configuration.get(SPARK_MASTER), conf or {})


def is_local(master: str) -> bool:
    """Return whether the driver, and all executors that a master starts, run on this machine."""
    return re.match(r"local(\[|-cluster\[|$)", master) is not None


def read_properties(path: Path) -> dict[str, str]:
    """Return Spark's options in a file such as conf/spark-defaults.conf. Raises ConfigurationError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"--properties-file {path}: cannot be read: {said}") from None
    found = {}
    for line in _logical_lines(text):
        separator = _SEPARATOR.search(line)
        key, value = (
            (line, "") if separator is None else (line[: separator.start(1)], line[separator.end(1) :])
        )
        found[_unescaped(key)] = _unescaped(value).strip()
    return {key: value for key, value in found.items() if key.startswith(_PREFIX)}


def properties_text(configuration: Mapping[str, str]) -> str:
    """Return options as the text of a file that Java reads as these options."""
    lines = []
    for key, value in configuration.items():
        # A space at the beginning of a value would be taken for the separator.
        escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        lines.append(f"{_SPECIAL.sub(_BACKSLASH, key)}={escaped}\n")
    return "".join(lines)


def _key_and_value(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    key = key.strip()
    if not separator or not key.startswith(_PREFIX):
        raise ConfigurationError(
            f"--conf {text}: give an option of Spark as KEY=VALUE, such as --conf spark.executor.memory=2g"
        )
    return key, value.strip()


def _logical_lines(text: str) -> Iterator[str]:
    """Yield the lines of a properties file without comments, each joined with those that it continues on."""
    waiting = ""
    for physical in text.splitlines():
        line = waiting + physical.lstrip()
        if not waiting and (not line or line[0] in "#!"):
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            waiting = line[:-1]
            continue
        waiting = ""
        yield line
    if waiting:
        yield waiting


def _unescaped(text: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(replaced, text)
