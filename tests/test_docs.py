"""The documentation: every path, module and link that it names exists, and the pages stay short."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path

import pytest
import yaml

import onceproof
from onceproof import engine, strategies
from onceproof.engine import cep

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        ROOT / "engine" / "README.md",
        ROOT / "harness" / "README.md",
        *ROOT.glob("engine/docs/**/*.md"),
        *ROOT.glob("harness/docs/**/*.md"),
    ]
)
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]

LONGEST_MAP = 150
MOST_WORDS = 40_300
"""Of all pages but the changelog; what has no letter or digit, such as the bar of a table, is not a word."""
PATH = re.compile(r"`((?:[a-z_]+/)+[a-z_]*(?:\.[a-z_]+)?|[a-z_]+\.py)`")
MODULE = re.compile(r"\bonceproof\.(?:engine|harness|scenarios|reports)(?:\.[A-Za-z_]\w*)*")
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
# Files of the user's own in examples, and folders that only exist while something runs.
EXAMPLES = re.compile(
    r"(sales|test_sales|ledger|mine|hours|orders|job|counts|copier|oracle|payments|payments_family|conftest|__init__|my_\w+)\.py"
    r"|(failures|regressions|shared|requests|reports/out|build|rescale)/.*"
)


def homes_of(page: str) -> list[Path]:
    """Return the folders from which a page may name files: the root and its half."""
    homes = [ROOT]
    if page.startswith(("engine/", "harness/")):
        half = ROOT / page.split("/")[0]
        homes.append(half)
        if page == "harness/docs/systems.md":
            homes.append(half / "systems" / "process")
    return homes


def slug(heading: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


@pytest.mark.parametrize("name", NAMES)
def test_named_paths_exist(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    missing = [
        path
        for path in sorted(set(PATH.findall(text)))
        if not EXAMPLES.fullmatch(path) and not any((home / path).exists() for home in homes_of(name))
    ]
    # A map names the parts of a room below the room.
    if name in ("engine/README.md", "harness/README.md"):
        half = ROOT / name.split("/")[0]
        missing = [path for path in missing if not any(half.glob(f"*/{path}"))]
    assert missing == []


def exists(dotted: str) -> bool:
    """Return whether a dotted name is a module or an attribute of one."""
    module, _, attribute = dotted.rpartition(".")
    try:
        if importlib.util.find_spec(dotted) is not None:
            return True
    except ModuleNotFoundError:
        pass
    if not module:
        return False
    try:
        return hasattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("name", NAMES)
def test_named_modules_exist(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert [dotted for dotted in sorted(set(MODULE.findall(text))) if not exists(dotted)] == []


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_to_pages_and_headings(name: str) -> None:
    page = ROOT / name
    broken = []
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.is_file():
            broken.append(target)
        elif anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            if anchor not in map(slug, headings):
                broken.append(target)
    assert broken == []


@pytest.mark.parametrize("name", ["engine/README.md", "harness/README.md"])
def test_maps_are_short(name: str) -> None:
    assert len((ROOT / name).read_text(encoding="utf-8").splitlines()) <= LONGEST_MAP


def test_documentation_is_short() -> None:
    pages = [(ROOT / name).read_text(encoding="utf-8") for name in NAMES if name != "CHANGELOG.md"]
    words = sum(1 for page in pages for part in page.split() if re.search(r"\w", part))
    assert words <= MOST_WORDS, "say it once, in a table or not at all"


@pytest.mark.parametrize("name", NAMES)
def test_python_in_pages_is_python(name: str) -> None:
    for block in re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL):
        compile(block, name, "exec")


@pytest.mark.parametrize("half", ["engine", "harness"])
def test_walk_of_a_map_has_five_files_with_their_functions(half: str) -> None:
    text = (ROOT / half / "README.md").read_text(encoding="utf-8")
    [walk] = re.findall(r"^## From a .+\n(?:.*\n)+?(?=## )", text, re.MULTILINE)
    steps = re.findall(r"^\d\. ((?:.*\n)(?:   .*\n)*)", walk, re.MULTILINE)
    assert len(steps) == 5
    for step in steps:
        names = re.findall(r"`([\w./]+)`", step)
        code = "".join((ROOT / half / name).read_text() for name in names if name.endswith(".py"))
        wanted = [each for name in names if not name.endswith(".py") for each in name.split(".")]
        assert wanted
        assert [each for each in wanted if not re.search(rf"(def|class) {each}\b", code)] == [], step


@pytest.mark.parametrize("half", ["engine", "harness"])
def test_map_names_every_page_and_every_room(half: str) -> None:
    text = (ROOT / half / "README.md").read_text(encoding="utf-8")
    pages = {f"docs/{path.name}" for path in (ROOT / half / "docs").glob("*.md")}
    assert {page for page in pages if f"({page}" not in text} == set()
    rooms = {path.parent.name for path in (ROOT / half).glob("*/*.py") if path.parent.name != "__pycache__"}
    assert {room for room in rooms if f"`{room}/`" not in text} == set()


def test_site_holds_every_page_and_loads_nothing_from_the_network() -> None:
    text = (ROOT / "harness" / "docs" / "mkdocs.yml").read_text(encoding="utf-8")
    assert sorted(re.findall(r": (\S+\.md)$", text, re.MULTILINE)) == sorted(
        [*NAMES, "engine/docs/sql-functions.md"]
    )
    settings = yaml.safe_load(text)
    assert settings["strict"] is True
    assert settings["theme"]["font"] is False
    assert not {"extra_css", "extra_javascript", "repo_url"} & settings.keys()


def test_api_pages_list_every_public_name() -> None:
    for packages, page in (
        ((onceproof, strategies), "harness/docs/api.md"),
        ((engine, cep), "engine/docs/api.md"),
    ):
        listed = re.findall(r"^::: (\S+)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
        names = [f"{package.__name__}.{name}" for package in packages for name in package.__all__]
        assert sorted(listed) == sorted(names)
