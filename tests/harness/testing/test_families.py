"""Which family a test means, and the words by which a shell finds it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import cast

import pytest

from onceproof.harness.model.family import Family, FamilyError, load_family
from onceproof.harness.testing.families import (
    find_family,
    found_by_children,
    needed_paths,
    replay_line,
    typed,
)

AT_START = tuple(sys.path)


def here(family: Family, subject: int | Path, folder: Path, system: str = "simulated") -> str:
    return replay_line(family, subject, system, folder, AT_START)


def test_a_path_is_looked_for_in_each_folder_and_the_first_wins(sales: Path, forgetful: Path) -> None:
    near, far = sales.parent / "near", sales.parent
    near.mkdir()
    (near / "sales.py").write_text(sales.read_text().replace('name = "sales"', 'name = "near sales"'))
    assert find_family("sales.py", None, (near, far)).name == "near sales"
    assert find_family(Path("forgetful.py"), None, (near, far)).name == "forgetful"
    assert find_family(str(sales), None, (near, near)).name == "sales"
    with pytest.raises(FamilyError, match=rf"^absent\.py: no such file in {near} and {far}$"):
        find_family("absent.py", None, (near, far))
    with pytest.raises(FamilyError, match=rf"^absent\.py: no such file in {near}$"):
        find_family("absent.py", None, (near, near))


def test_a_name_a_module_and_nothing_are_families_too(sales: Path) -> None:
    module = cast(ModuleType, load_family(str(sales)))
    assert find_family("word_count", None, ()).name == "word_count"
    assert find_family(module, None, ()) is module
    assert find_family(None, module, ()) is module
    for own in (None, ModuleType("test_nothing")):
        with pytest.raises(FamilyError, match="no family is named, so the test's own module is meant: a"):
            find_family(None, own, ())


def test_a_path_is_typed_from_where_the_user_is() -> None:
    assert typed("/home/mine/tests/sales.py", Path("/home/mine")) == "tests/sales.py"
    assert typed(Path("/home/mine/sales.py"), Path("/home/mine/tests")) == "/home/mine/sales.py"


def test_a_command_names_file_family_and_system_as_they_are_typed(sales: Path) -> None:
    family, folder = load_family(str(sales)), sales.parent
    kept = folder / "a b" / "one.json"
    assert here(family, kept, folder) == "onceproof replay 'a b/one.json' --family sales.py"
    assert here(family, kept, folder / "a b") == f"onceproof replay one.json --family {sales}"
    assert here(family, 7, folder, "local") == "onceproof replay 7 --family sales.py --system local"
    built_in = load_family("word_count")
    assert here(built_in, kept, folder / "a b") == "onceproof replay one.json"
    assert here(built_in, 7, folder) == "onceproof replay 7 --family word_count"


def test_a_family_that_no_command_finds_has_none() -> None:
    family = cast(Family, SimpleNamespace(name="made"))
    assert here(family, 7, Path()) == ""


def test_what_pytest_put_on_the_path_is_put_there_by_the_command(sales: Path) -> None:
    folder = sales.parent
    for name in ("library", "unused", "beside"):
        (folder / name).mkdir()
        (folder / name / f"parts_in_{name}.py").write_text("")
        sys.path.insert(0, str(folder / name))
    __import__("parts_in_library")
    path = folder / "beside" / "sales.py"
    path.write_text("import parts_in_library, parts_in_beside\n" + sales.read_text())
    family = load_family(str(path))
    # Where the file itself stands the command looks anyway, and nobody needs a folder that nobody used.
    assert needed_paths(family, AT_START) == [str(folder / "library")]
    command = here(family, 7, folder)
    assert command == "PYTHONPATH=library onceproof replay 7 --family beside/sales.py"
    program = (
        "import sys; from onceproof.harness.model.family import load_family;"
        " print(load_family(sys.argv[1]).name)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, "beside/sales.py"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(["library", os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == "sales\n"


def test_the_folder_that_python_was_started_in_is_needed_like_any_other(sales: Path) -> None:
    """`python -m pytest` puts it first; the command `onceproof` does not."""
    folder = sales.parent
    (folder / "parts_here.py").write_text("")
    (folder / "tests").mkdir()
    path = folder / "tests" / "sales.py"
    path.write_text("import parts_here\n" + sales.read_text())
    sys.path.insert(0, str(folder))
    family = load_family(str(path))
    assert needed_paths(family, (str(folder), *AT_START)) == [str(folder)]
    assert here(family, 7, folder).startswith("PYTHONPATH=. onceproof replay 7 ")


def test_tests_and_what_sets_them_up_are_needed_by_no_command(sales: Path) -> None:
    folder = sales.parent / "tests"
    folder.mkdir()
    for name in ("conftest", "test_parts"):
        module = ModuleType(name)
        module.__file__ = str(folder / f"{name}.py")
        # Under another name: there may be a real one.
        sys.modules[f"{name}_beside_this"] = module
    sys.path.insert(0, str(folder))
    assert needed_paths(load_family(str(sales)), AT_START) == []


@pytest.mark.parametrize("before", [None, "/before"])
def test_the_processes_that_are_started_meanwhile_find_it_too(
    monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    if before is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", before)
    with found_by_children(["/one", "/two"]):
        assert os.environ["PYTHONPATH"] == os.pathsep.join(filter(None, ["/one", "/two", before]))
    assert os.environ.get("PYTHONPATH") == before
    with found_by_children([]):
        assert os.environ.get("PYTHONPATH") == before
