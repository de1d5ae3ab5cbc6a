"""The public names of PyFlink 1.12 to 2.3, and the file with which the engine answers for those it lacks.

    python -m tests.engine.pyflink_surface record WHEEL...   reads wheels, writes pyflink_surface.json
    python -m tests.engine.pyflink_surface write             writes engine/flink_names.json from it

Rules:

- Names are read from the syntax trees of the modules; PyFlink is never imported. A name is public if no part
  of it begins with an underscore.
- Of the packages in ``INTERNAL`` only the modules are recorded: no program has a reason to import from
  them.
- Why a name of `pyflink.datastream` and `pyflink.common` is missing is what engine/docs/pyflink.md says by
  its groups. The tables of pyflink_replacements.py classify names of older versions and of other packages.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from onceproof import engine
from tests.engine.pyflink_replacements import (
    GROUPS,
    INSTEAD,
    INTERNAL,
    JAVA,
    KRYO,
    OF_TABLES,
    PACKAGES,
    PRIVATE,
    REMOVED,
    TABLES,
    Group,
)

SURFACE: Final = Path(__file__).with_name("pyflink_surface.json")
ANSWERS: Final = Path(engine.__file__).with_name("flink_names.json")
PAGE: Final = Path(engine.__file__).parent / "docs" / "pyflink.md"


@dataclass
class Surface:
    """The public names of several versions."""

    versions: list[str] = field(default_factory=list)
    modules: set[str] = field(default_factory=set)
    names: dict[str, dict[str, tuple[str, str]]] = field(default_factory=lambda: defaultdict(dict))
    """Module -> name or `Class.member` -> first and last version with it."""
    bases: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Class -> classes that it inherits from, in any version."""

    def add(self, version: str, wheel: zipfile.ZipFile) -> None:
        """Take over the names of a wheel; versions come in their order."""
        self.versions.append(version)
        for path in sorted(wheel.namelist()):
            parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
            if not path.endswith(".py") or parts[0] != "pyflink" or {"tests", "examples"} & {*parts}:
                continue
            if any(part.startswith("_") for part in parts):
                continue
            self.modules.add(".".join(parts))
            if len(parts) > 1 and parts[1] not in INTERNAL:
                for name in self._public(ast.parse(wheel.read(path).decode()).body):
                    known = self.names[".".join(parts)]
                    known[name] = (known.get(name, (version,))[0], version)

    def _public(self, body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
        for each in body:
            match each:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    found = [name]
                case ast.ClassDef(name=name):
                    found = [name]
                    written = [ast.unparse(base).partition("[")[0] for base in each.bases]
                    self.bases[prefix + name].update(written)
                    if not name.startswith("_"):
                        yield from self._public(each.body, f"{prefix}{name}.")
                case ast.Assign(targets=targets):
                    found = [target.id for target in targets if isinstance(target, ast.Name)]
                case ast.AnnAssign(target=ast.Name(id=name)):
                    found = [name]
                case ast.If(body=inner) | ast.Try(body=inner):
                    yield from self._public(inner, prefix)
                    continue
                case _:
                    continue
            yield from (prefix + name for name in found if not name.startswith("_"))

    def save(self) -> None:
        """Write the file of recorded names."""
        names: dict[str, dict[str, list[str]]] = {}
        for module, known in sorted(self.names.items()):
            ranges = names[module] = defaultdict(list)
            for name, (first, last) in sorted(known.items()):
                ranges[f"{first}-{last}"].append(name)
        content = {
            "versions": self.versions,
            "modules": " ".join(sorted(self.modules)),
            "bases": {name: " ".join(sorted(given)) for name, given in sorted(self.bases.items()) if given},
            "names": {
                module: {span: " ".join(given) for span, given in ranges.items()}
                for module, ranges in names.items()
            },
        }
        SURFACE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


@cache
def surface() -> Surface:
    """Return the recorded names."""
    content = json.loads(SURFACE.read_text(encoding="utf-8"))
    found = Surface(content["versions"], set(content["modules"].split()))
    for name, given in content["bases"].items():
        found.bases[name].update(given.split())
    for module, ranges in content["names"].items():
        for span, given in ranges.items():
            first, _, last = span.partition("-")
            found.names[module].update(dict.fromkeys(given.split(), (first, last)))
    return found


@cache
def public_names() -> dict[str, set[str]]:
    """Return each public name that stands in no class, with the modules that define it."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, known in surface().names.items():
        for name in known:
            if "." not in name:
                found[name].add(module)
    return dict(found)


def members_of(name: str) -> set[str]:
    """Return the public members that a class of PyFlink has in any version, inherited ones too."""
    found = set(_own_members().get(name, ()))
    outer = name.rpartition(".")[0]
    for base in surface().bases.get(name, ()):
        inner = f"{outer}.{base}"
        above = inner if inner in _own_members() else base
        if above != name and (_is_of_streams(above) or not _is_of_streams(name)):
            found |= members_of(above)
    return found


@cache
def _own_members() -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for module, known in surface().names.items():
        for name in known:
            owner, _, member = name.rpartition(".")
            if owner and not (module.startswith(OF_TABLES) and _is_of_streams(owner)):
                found[owner].add(member)
    return found


def _is_of_streams(name: str) -> bool:
    """Return whether a class stands outside `pyflink.table`, where another one may have its name."""
    return any(not module.startswith(OF_TABLES) for module in public_names().get(name.partition(".")[0], ()))


def ours(name: str) -> Any:
    """Return the engine's object of a name such as "FileSink.BaseBuilder"; None if there is none."""
    try:
        return engine.DEPRECATED.get(name) or attrgetter(name)(engine)
    except (AttributeError, ImportError):
        return None


@cache
def classes_of_both() -> list[str]:
    """Return the classes that PyFlink and the engine have, those within others as `Outer.Inner`."""
    outer = [name for name in public_names() if isinstance(ours(name), type)]
    inner = [name for name in _own_members() if "." in name and isinstance(ours(name), type)]
    return sorted({*outer, *inner})


def missing_members(name: str) -> set[str]:
    """Return the members that our class lacks, without those that a class of both above it lacks, too."""
    found = {each for each in members_of(name) if not hasattr(ours(name), each)}
    for base in ours(name).__mro__[1:]:
        if base.__qualname__ in classes_of_both():
            found -= members_of(base.__qualname__)
    return found


@cache
def _page() -> dict[str, Group]:
    """Return the group of each name on the page; a member stands as `Class.member`."""
    item = re.compile(r"^- (?:`([\w.]+)`: )?(.+?)(?=^[-#]|^$|\Z)", re.MULTILINE | re.DOTALL)
    found = {}
    for part in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        group = GROUPS[part.partition("\n")[0]]
        for owner, names in item.findall(part):
            for name in re.findall(r"`([\w.]+)`", names):
                found[f"{owner}.{name}" if owner else name] = group
    return found


def group_of(name: str, modules: set[str]) -> Group:
    """Return why a name or a member is missing."""
    if name in _page():
        return _page()[name]
    if KRYO.search(name):
        return JAVA
    for module in sorted(modules):
        package = module
        while package:
            if package in PACKAGES:
                return PACKAGES[package]
            package = package.rpartition(".")[0]
    newest = surface().versions[-1]
    spans = [surface().names[module].get(name) for module in modules]
    return PRIVATE if any(span and span[1] == newest for span in spans) else REMOVED


def answers() -> dict[str, Any]:
    """Return the content of the engine's file."""
    grouped: dict[Group, set[str]] = defaultdict(set)
    for name, modules in public_names().items():
        if ours(name) is None:
            grouped[group_of(name, modules)].add(name)
        elif any(module.startswith(OF_TABLES) for module in modules) and _is_of_streams(name):
            # Another class of this name, which belongs to tables.
            grouped[TABLES].add(f"{OF_TABLES}.{name}")
    for name in classes_of_both():
        modules = public_names()[name.partition(".")[0]]
        for member in missing_members(name):
            grouped[group_of(f"{name}.{member}", modules)].add(f"{name}.{member}")
    for module in surface().modules:
        for package, group in PACKAGES.items():
            if module == package and not _has_names_of_ours(module):
                grouped[group].add(module)
    missing = set().union(*grouped.values())
    return {
        "groups": [
            {"reason": group.reason, "instead": group.instead, "names": " ".join(sorted(names))}
            for group, names in sorted(grouped.items(), key=lambda each: each[0].reason)
        ],
        "instead": {name: text for name, text in sorted(INSTEAD.items()) if name in missing},
        "modules": " ".join(sorted(each for each in surface().modules if not _is_below(each, missing))),
    }


def _has_names_of_ours(package: str) -> bool:
    return any(
        ours(name) is not None
        for module, known in surface().names.items()
        if f"{module}.".startswith(f"{package}.")
        for name in known
        if "." not in name
    )


def _is_below(module: str, packages: set[str]) -> bool:
    return any(f"{module}.".startswith(f"{each}.") for each in packages if each.startswith("pyflink."))


def written(content: Mapping[str, Any]) -> str:
    """Return the text of the engine's file."""
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    """Record wheels, or write the engine's file."""
    match arguments:
        case ["record", *wheels] if wheels:
            found = Surface()
            by_version = {re.search(r"apache_flink-([\d.]+)-", each)[1]: each for each in wheels}  # type: ignore[index]
            for version in sorted(by_version, key=lambda each: tuple(map(int, each.split(".")))):
                with zipfile.ZipFile(by_version[version]) as wheel:
                    found.add(version, wheel)
            found.save()
        case ["write"]:
            ANSWERS.write_text(written(answers()), encoding="utf-8")
        case _:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
