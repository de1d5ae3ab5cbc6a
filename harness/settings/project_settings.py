"""The settings of a project: the table [tool.onceproof] of its pyproject.toml.

The rules this module lives by:

- Each setting is declared once, in ``Settings``: its name, its type, what it may be, and what it is for.
- The nearest pyproject.toml that has the table holds, from the working directory upwards; paths in it are
  meant from its folder. Where there is none, everything has its default.
- What the command line names wins. `replay`, `shrink` and `explain` heed no settings at all: a command that a
  report prints does the same wherever it is typed.
- A setting that nobody knows, or that has a value it cannot have, is an error before anything is run: one
  line that names the file, the key and the mend. All are checked, those too that the command line overrules.
- Only the commands that heed settings import this; nothing is read before.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from datetime import date
from math import isfinite
from pathlib import Path
from typing import Any, Final, TypeAlias

from onceproof.harness.checkers import CONTINUATIONS, PROPERTIES
from onceproof.harness.checkers.determinism import PROPERTY as DETERMINISM
from onceproof.harness.checkers.known_failures import KnownSignature
from onceproof.harness.model.family import family_names, split_address
from onceproof.harness.model.system import system_names

FILE: Final = "pyproject.toml"
TABLE: Final = "tool.onceproof"

NIGHTS: Final = 365
"""Nights that are kept where nobody says otherwise."""

Check: TypeAlias = Callable[[Any, Path], Any]
"""From what the file says, and the file's folder, to the setting's value; raises Unfit."""

_KNOWN_FIELDS: Final = tuple(each.name for each in fields(KnownSignature))
_KNOWN_NEEDED: Final = ("family", "property", "anomaly")
_LONGEST_VALUE: Final = 60


class SettingsError(Exception):
    """Settings that cannot be used; the message is one line that names the file, the key and the mend."""


class Unfit(ValueError):
    """A value that a setting cannot have; the message says what it must be, or what it lacks."""

    def __init__(self, said: str, place: str = "") -> None:
        super().__init__(said)
        self.place = place
        """Where below the key it stands: "[2].why"; empty for the key itself."""


def _whole(least: int) -> Check:
    def check(value: Any, folder: Path) -> int:
        if type(value) is not int or value < least:
            raise Unfit(f"must be a whole number of {least} or more, not {_shown(value)}")
        return value

    return check


def _any_whole(value: Any, folder: Path) -> int:
    if type(value) is not int:
        raise Unfit(f"must be a whole number, not {_shown(value)}")
    return value


def _seconds(value: Any, folder: Path) -> float:
    if type(value) not in (int, float) or not isfinite(value) or value < 0:
        raise Unfit(f"must be a number of seconds, 0 or more, not {_shown(value)}")
    return float(value)


def _folder(value: Any, folder: Path) -> Path:
    if not isinstance(value, str) or not value:
        raise Unfit(f"must be the path of a folder, not {_shown(value)}")
    return from_here(folder / value)


def _system(value: Any, folder: Path) -> str:
    if value not in system_names():
        raise Unfit(f"must be a system, not {_shown(value)}; {_instead(value, system_names())}")
    return str(value)


def _families(value: Any, folder: Path) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise Unfit(f"must be a list of families, by name or path, not {_shown(value)}")
    return tuple(_family(each, f"[{number}]", folder) for number, each in enumerate(value))


def _family(value: Any, place: str, folder: Path) -> str:
    if not isinstance(value, str) or not value:
        raise Unfit(f"must be the name or the path of a family, not {_shown(value)}", place)
    file, attribute = split_address(value)
    if file is not None:
        path = from_here(folder / file)
        if not path.is_file():
            raise Unfit(f"there is no file {value!r} beside {FILE}", place)
        return f"{path}:{attribute}" if attribute else str(path)
    if value not in family_names():
        raise Unfit(f"unknown family {value!r}; {_instead(value, family_names())}", place)
    return value


def _known(value: Any, folder: Path) -> tuple[KnownSignature, ...]:
    if not isinstance(value, list):
        raise Unfit(f"must be a list of tables, each begun by [[{TABLE}.known]]")
    entries: dict[tuple[str, str, str], KnownSignature] = {}
    for number, entry in enumerate(value):
        place = f"[{number}]"
        known = _known_signature(entry, place)
        if entries.setdefault((known.family, *known.signature()), known) is not known:
            raise Unfit("is listed already; remove one of the two", place)
    return tuple(entries.values())


def _known_signature(entry: Any, place: str) -> KnownSignature:
    if not isinstance(entry, dict):
        raise Unfit(f"must be a table with family, property and anomaly, not {_shown(entry)}", place)
    texts: dict[str, str] = {}
    for name, value in entry.items():
        if name not in _KNOWN_FIELDS:
            raise Unfit(f"unknown; {_instead(name, _KNOWN_FIELDS)}", f"{place}.{name}")
        text = value.isoformat() if isinstance(value, date) else value
        if not isinstance(text, str) or not text:
            raise Unfit(f"must be a text, not {_shown(value)}", f"{place}.{name}")
        texts[name] = text
    for name in _KNOWN_NEEDED:
        if name not in texts:
            raise Unfit(f"lacks {name!r}; a known signature has family, property and anomaly", place)
    properties = (*PROPERTIES, *CONTINUATIONS, DETERMINISM)
    # It may be the type of an exception as well, and those have capitals.
    if texts["property"].islower() and texts["property"] not in properties:
        said = f"unknown property {texts['property']!r}; {_instead(texts['property'], properties)}"
        raise Unfit(said, f"{place}.property")
    return KnownSignature(**texts)


def _about(check: Check, doc: str) -> dict[str, Any]:
    return {"check": check, "doc": doc}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a project has set; None where it leaves a setting to the command's default."""

    families: tuple[str, ...] | None = field(
        default=None,
        metadata=_about(
            _families,
            "families of `run`, `campaign` and `nightly`, by name or path; all built-in ones if not set",
        ),
    )
    scenarios: int | None = field(
        default=None, metadata=_about(_whole(1), "how many scenarios `run` and `campaign` make")
    )
    max_time: float | None = field(
        default=None,
        metadata=_about(
            _seconds, "for how many seconds `run` and `campaign` go on, and the campaign in `nightly`"
        ),
    )
    seed: int | None = field(
        default=None,
        metadata=_about(
            _any_whole, "decides every scenario of `run` and `campaign`; each night draws one of its own"
        ),
    )
    system: str | None = field(default=None, metadata=_about(_system, "what stands trial in `run`"))
    workers: int | None = field(
        default=None, metadata=_about(_whole(1), "processes of `run`; as many as processors if not set")
    )
    shrink_time: float | None = field(
        default=None,
        metadata=_about(
            _seconds, "for how many seconds `run`, `campaign` and the tests of a family shrink each failure"
        ),
    )
    out: Path | None = field(
        default=None,
        metadata=_about(
            _folder, "where the results of `nightly` go; `run` and `campaign` have folders of theirs below it"
        ),
    )
    history: Path | None = field(
        default=None,
        metadata=_about(_folder, "where the history of nights is kept; `history` below `out` if not set"),
    )
    nights: int = field(default=NIGHTS, metadata=_about(_whole(1), "how many nights the history keeps"))
    known: tuple[KnownSignature, ...] = field(
        default=(),
        metadata=_about(
            _known, "failures that are known and fail no run: family, property, anomaly, since, why"
        ),
    )


SETTINGS: Final = fields(Settings)
"""The settings; what one is for stands in its ``metadata["doc"]``."""


def load_settings(folder: Path | None = None) -> Settings:
    """Return the settings that hold in a folder, or in the working directory; raises SettingsError."""
    start = (folder or Path()).resolve()
    for place in (start, *start.parents):
        file = place / FILE
        if file.is_file() and (table := _table(file)) is not None:
            return _settings_of(table, file)
    return Settings()


def from_here(path: Path) -> Path:
    """Return a path as it is typed from the working directory."""
    return Path(os.path.relpath(path))


def _table(file: Path) -> dict[str, Any] | None:
    """Return the table in a file; None where it has none."""
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{from_here(file)}: cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{from_here(file)}: not TOML: {error}") from None
    tools = document.get("tool")
    table = tools.get("onceproof") if isinstance(tools, dict) else None
    if table is not None and not isinstance(table, dict):
        raise SettingsError(f"{from_here(file)}: {TABLE}: must be a table, not {_shown(table)}")
    return table


def _settings_of(table: dict[str, Any], file: Path) -> Settings:
    declared = {each.name: each for each in SETTINGS}
    values: dict[str, Any] = {}
    for name, value in table.items():
        where = f"{from_here(file)}: {TABLE}.{name}"
        if name not in declared:
            raise SettingsError(f"{where}: unknown setting; {_instead(name, tuple(declared))}")
        try:
            values[name] = declared[name].metadata["check"](value, file.parent)
        except Unfit as unfit:
            raise SettingsError(f"{where}{unfit.place}: {unfit}") from None
    return Settings(**values)


def _instead(value: object, possible: Sequence[str]) -> str:
    near = difflib.get_close_matches(str(value), possible, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(possible)}"


def _shown(value: object) -> str:
    """Return a value of the file in a few words."""
    text = "a table" if isinstance(value, dict) else repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."
