"""The settings of a project: the table [tool.onceproof] of its pyproject.toml.

The rules this module lives by:

- Each setting is declared once, in ``Settings``: its name, its type, its values, and what it is for.
- The nearest pyproject.toml that has the table counts, from the working directory upwards. Its paths are
  relative to its folder. Without such a file every setting has its default.
- The command line overrides the settings. `replay`, `shrink` and `explain` read no settings: a command that a
  report prints does the same in any folder.
- An unknown setting or a wrong value is an error before anything runs: one line that names the file, the key
  and the mend. All settings are checked, also those that the command line overrides.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from datetime import date
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, get_type_hints

import msgspec
from msgspec import Meta

from onceproof.engine.locations import scheme_of
from onceproof.engine.outside_files import read_at_most
from onceproof.harness.checkers import CONTINUATIONS, PROPERTIES
from onceproof.harness.checkers.determinism import PROPERTY as DETERMINISM
from onceproof.harness.checkers.known_failures import KnownSignature, Text
from onceproof.harness.model.family_places import family_names, joined_address, split_address
from onceproof.harness.model.seeds import LARGEST_SEED, LEAST_SEED
from onceproof.harness.model.system_homes import system_names

FILE: Final = "pyproject.toml"
TABLE: Final = "tool.onceproof"
MOST_BYTES: Final = 16 << 20
"""The most that is read of the file."""

NIGHTS: Final = 365
"""Nights that the history keeps by default."""

_LONGEST_VALUE: Final = 60

Whole: TypeAlias = Annotated[int, Meta(ge=1)]
NoneOrMore: TypeAlias = Annotated[int, Meta(ge=0)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0)]
Families: TypeAlias = Annotated[tuple[Text, ...], Meta(min_length=1)]


class SettingsError(Exception):
    """Settings that cannot be used; the message is one line that names the file, the key and the mend."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a project; None leaves a setting to the default of the command."""

    families: Annotated[
        Families | None,
        Meta(
            description=(
                "families of `run`, `campaign` and `nightly`, by name or path; default: all built-in ones"
            ),
        ),
    ] = None
    scenarios: Annotated[Whole | None, Meta(description="number of scenarios of `run` and `campaign`")] = None
    max_time: Annotated[
        Seconds | None,
        Meta(description="time limit of `run`, `campaign` and the campaign of `nightly`, in seconds"),
    ] = None
    limit_time: Annotated[
        Seconds | None,
        Meta(
            description=(
                "maximum time of the campaign of `nightly` to reach the next two settings, in seconds"
            )
        ),
    ] = None
    least_scenarios: Annotated[
        NoneOrMore | None,
        Meta(description="scenarios of each family that a night must run to pass"),
    ] = None
    least_kills: Annotated[
        NoneOrMore | None,
        Meta(description="kills under which a night must check each property to pass"),
    ] = None
    seed: Annotated[
        Annotated[int, Meta(ge=LEAST_SEED, le=LARGEST_SEED)] | None,
        Meta(description="seed of `run` and `campaign`; each night draws its own"),
    ] = None
    system: Annotated[str | None, Meta(description="the system that `run` tests")] = None
    workers: Annotated[
        Whole | None, Meta(description="processes of `run`; default: the number of processors")
    ] = None
    shrink_runs: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(
            description=(
                "runs for shrinking each failure, in `run`, `campaign` and tests; default on a real system: 0"
            )
        ),
    ] = None
    scenario_time: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(
            description=(
                "seconds of processor time that a simulated scenario may take; one that waits"
                " may wait as long"
            )
        ),
    ] = None
    scenario_memory: Annotated[
        Whole | None, Meta(description="MiB that a simulated scenario may allocate")
    ] = None
    out: Annotated[
        Path | None,
        Meta(description=("folder for the results of `nightly`; `run` and `campaign` use folders below it")),
    ] = None
    history: Annotated[
        Text | None,
        Meta(
            description=(
                "history of nights: a folder, or an address such as `s3://bucket/nights`;"
                " default: `history` below `out`"
            )
        ),
    ] = None
    nights: Annotated[Whole, Meta(description="number of nights that the history keeps")] = NIGHTS
    known: Annotated[
        tuple[KnownSignature, ...],
        Meta(description="known failures, which fail no run: family, property, anomaly, since, why"),
    ] = ()


SETTINGS: Final[Mapping[str, str]] = {
    name: hint.__metadata__[-1].description
    for name, hint in get_type_hints(Settings, include_extras=True).items()
}
"""By the name of a setting, what it is for."""

_ASKED: Final[Mapping[str, str]] = {
    "families": "a list of families, by name or path",
    "families[]": "the name or the path of a family",
    "scenarios": "a whole number of 1 or more",
    "max_time": "a number of seconds, 0 or more",
    "limit_time": "a number of seconds, 0 or more",
    "least_scenarios": "a whole number of 0 or more",
    "least_kills": "a whole number of 0 or more",
    "seed": "a whole number of 64 bits",
    "system": "a system",
    "workers": "a whole number of 1 or more",
    "shrink_runs": "a whole number, 0 or more",
    "scenario_time": "a number of seconds above 0",
    "scenario_memory": "a whole number of MiB, 1 or more",
    "out": "the path of a folder",
    "history": "the path of a folder, or an address",
    "nights": "a whole number of 1 or more",
    "known": f"a list of tables, each begun by [[{TABLE}.known]]",
    "known[]": "a table with family, property and anomaly",
}
"""By the place of a value, what it must be. The fields of a known signature are texts."""

_MISTAKE: Final = re.compile(
    r"Object contains unknown field `(?P<unknown>.*)`|Object missing required field `(?P<missing>.*)`|.*?",
    re.DOTALL,
)
_PLACED: Final = re.compile(r"(?P<mistake>.*?)(?: - at `\$\.?(?P<place>.*)`)?", re.DOTALL)


class _Unfit(ValueError):
    """A value that a setting cannot have; the message says what is wrong, ``place`` where it stands."""

    def __init__(self, message: str, place: str) -> None:
        super().__init__(message)
        self.place = place


def load_settings(folder: Path | None = None) -> Settings:
    """Return the settings for a folder, by default the working directory. Raises SettingsError."""
    start = (folder or Path()).resolve()
    for place in (start, *start.parents):
        file = place / FILE
        if file.is_file() and (table := _table(file)) is not None:
            try:
                return _settings_of(table, file.parent)
            except _Unfit as unfit:
                raise SettingsError(f"{from_here(file)}: {TABLE}.{unfit.place}: {unfit}") from None
            except RecursionError:
                raise SettingsError(f"{from_here(file)}: {TABLE}: nested too deeply: no setting is") from None
    return Settings()


def from_here(path: Path) -> Path:
    """Return a path relative to the working directory."""
    return Path(os.path.relpath(path))


def _place(folder: Path, place: str) -> str:
    """Return an address as it is, and a folder as the working directory has it."""
    return place if scheme_of(place) else str(from_here(folder / place))


def _table(file: Path) -> dict[str, Any] | None:
    """Return the table in a file; None if it has none."""
    try:
        document = tomllib.loads(read_at_most(file, MOST_BYTES).decode())
    except OSError as error:
        raise SettingsError(f"{from_here(file)}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        # Also for bytes that are not UTF-8, and for numbers of thousands of digits.
        raise SettingsError(f"{from_here(file)}: not TOML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise SettingsError(f"{from_here(file)}: nested too deeply: no setting is") from None
    tools = document.get("tool")
    table = tools.get("onceproof") if isinstance(tools, dict) else None
    if table is not None and not isinstance(table, dict):
        raise SettingsError(f"{from_here(file)}: {TABLE}: must be a table, not {_shown(table)}")
    return table


def _settings_of(table: dict[str, Any], folder: Path) -> Settings:
    """Return the settings in a table; paths are relative to ``folder``. Raises _Unfit."""
    table = _with_texts_for_dates(table)
    try:
        settings = msgspec.convert(table, Settings, dec_hook=_path)
    except msgspec.ValidationError as error:
        raise _unfit(table, str(error)) from None
    for name in ("max_time", "limit_time", "scenario_time"):
        if not isfinite(getattr(settings, name) or 0.0):
            raise _Unfit(f"must be {_ASKED[name]}, not {_shown(table[name])}", name)
    if settings.system is not None and settings.system not in system_names():
        hint = _instead(settings.system, system_names())
        raise _Unfit(f"must be a system, not {_shown(settings.system)}; {hint}", "system")
    _check_known(settings.known)
    families = settings.families
    if families is not None:
        families = tuple([_family(name, f"families[{place}]", folder) for place, name in enumerate(families)])
    return msgspec.structs.replace(
        settings,
        families=families,
        out=None if settings.out is None else from_here(folder / settings.out),
        history=None if settings.history is None else _place(folder, settings.history),
    )


def _path(kind: type, value: Any) -> Path:
    if not isinstance(value, str) or not value:
        raise ValueError("not a path")
    return Path(value)


def _with_texts_for_dates(value: Any) -> Any:
    """Return a table in which TOML's dates are texts."""
    if isinstance(value, dict):
        return {name: _with_texts_for_dates(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_texts_for_dates(each) for each in value]
    return value.isoformat() if isinstance(value, date) else value


def _unfit(table: dict[str, Any], message: str) -> _Unfit:
    """Return msgspec's error about a table in the words of the settings."""
    placed = _PLACED.fullmatch(message)
    mistake = _MISTAKE.fullmatch(placed["mistake"]) if placed else None
    assert placed is not None
    assert mistake is not None
    place = placed["place"] or ""
    if unknown := mistake["unknown"]:
        if not place:
            return _Unfit(f"unknown setting; {_instead(unknown, SETTINGS)}", unknown)
        return _Unfit(f"unknown; {_instead(unknown, KnownSignature.__struct_fields__)}", f"{place}.{unknown}")
    if missing := mistake["missing"]:
        return _Unfit(f"lacks {missing!r}; a known signature has family, property and anomaly", place)
    value: Any = table
    for step in re.findall(r"\w+", place):
        value = value[int(step)] if isinstance(value, list) else value[step]
    asked = _ASKED.get(re.sub(r"\[\d+\]", "[]", place), "a text")
    return _Unfit(f"must be {asked}, not {_shown(value)}", place)


def _family(address: str, place: str, folder: Path) -> str:
    """Return the address of a family as the working directory has it. Raises _Unfit."""
    file, attribute = split_address(address)
    if file is None:
        if address not in family_names():
            raise _Unfit(f"unknown family {address!r}; {_instead(address, family_names())}", place)
        return address
    path = from_here(folder / file)
    if not path.is_file():
        raise _Unfit(f"there is no file {address!r} beside {FILE}", place)
    return joined_address(path, attribute)


def _check_known(known: Iterable[KnownSignature]) -> None:
    """Raise _Unfit for an unknown property and for a signature that is listed twice."""
    properties = (*PROPERTIES, *CONTINUATIONS, DETERMINISM)
    listed = set()
    for number, entry in enumerate(known):
        # The type of an exception may stand here as well, and types have capitals.
        if entry.property.islower() and entry.property not in properties:
            hint = _instead(entry.property, properties)
            raise _Unfit(f"unknown property {entry.property!r}; {hint}", f"known[{number}].property")
        key = (entry.family, *entry.signature())
        if key in listed:
            raise _Unfit("is listed already; remove one of the two", f"known[{number}]")
        listed.add(key)


def _instead(value: object, possible: Iterable[str]) -> str:
    possible = list(possible)
    near = difflib.get_close_matches(str(value), possible, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(possible)}"


def _shown(value: object) -> str:
    """Return a value of the file in a few words."""
    text = "a table" if isinstance(value, dict) else repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."
