"""The family that a test names, and the command line that replays its scenarios."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import cast

import pytest

from onceproof.harness.model.family import Family, FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.testing.family_lookup import (
    extended_python_path,
    find_family,
    needed_python_path,
    path_as_typed,
    replay_command_line,
)

AT_START = tuple(sys.path)


def here(family: Family, subject: int | Path, folder: Path, system: str = "simulated") -> str:
    return replay_command_line(family, subject, system, folder, AT_START)


def test_path_is_searched_in_each_folder_in_order(sales: Path, forgetful: Path) -> None:
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


def test_name_module_and_own_module_are_found(sales: Path) -> None:
    module = cast(ModuleType, load_family(str(sales)))
    assert find_family("word_count", None, ()).name == "word_count"
    assert find_family(module, None, ()) is module
    assert find_family(None, module, ()) is module
    for own in (None, ModuleType("test_nothing")):
        with pytest.raises(FamilyError, match="no family is named, so it must be the test's own module: a"):
            find_family(None, own, ())


def test_printed_path_is_relative_to_the_folder() -> None:
    assert path_as_typed("/home/mine/tests/sales.py", Path("/home/mine")) == "tests/sales.py"
    assert path_as_typed(Path("/home/mine/sales.py"), Path("/home/mine/tests")) == "/home/mine/sales.py"


def test_replay_command_names_file_family_and_system(sales: Path) -> None:
    family, folder = load_family(str(sales)), sales.parent
    kept = folder / "a b" / "one.json"
    assert here(family, kept, folder) == "onceproof replay 'a b/one.json' --family sales.py"
    assert here(family, kept, folder / "a b") == f"onceproof replay one.json --family {sales}"
    assert here(family, 7, folder, "local") == "onceproof replay 7 --family sales.py --system local"
    built_in = load_family("word_count")
    assert here(built_in, kept, folder / "a b") == "onceproof replay one.json"
    assert here(built_in, 7, folder) == "onceproof replay 7 --family word_count"


def test_family_without_an_address_has_no_replay_command() -> None:
    family = cast(Family, SimpleNamespace(name="made"))
    assert here(family, 7, Path()) == ""


def test_replay_command_sets_pythonpath_for_imported_modules(sales: Path) -> None:
    folder = sales.parent
    for name in ("library", "unused", "beside"):
        (folder / name).mkdir()
        (folder / name / f"parts_in_{name}.py").write_text("")
        sys.path.insert(0, str(folder / name))
    __import__("parts_in_library")
    path = folder / "beside" / "sales.py"
    path.write_text("import parts_in_library, parts_in_beside\n" + sales.read_text())
    family = load_family(str(path))
    # The command searches the folder of the family by itself, and unused folders are not needed.
    assert needed_python_path(family, AT_START) == [str(folder / "library")]
    command = here(family, 7, folder)
    assert command == "PYTHONPATH=library onceproof replay 7 --family beside/sales.py"
    program = (
        "import sys; from onceproof.harness.model.family_places import load_family;"
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


def test_working_directory_on_sys_path_is_part_of_pythonpath(sales: Path) -> None:
    """`python -m pytest` puts it first; the command `onceproof` does not."""
    folder = sales.parent
    (folder / "parts_here.py").write_text("")
    (folder / "tests").mkdir()
    path = folder / "tests" / "sales.py"
    path.write_text("import parts_here\n" + sales.read_text())
    sys.path.insert(0, str(folder))
    family = load_family(str(path))
    assert needed_python_path(family, (str(folder), *AT_START)) == [str(folder)]
    assert here(family, 7, folder).startswith("PYTHONPATH=. onceproof replay 7 ")


def test_test_modules_and_conftest_are_not_part_of_pythonpath(sales: Path) -> None:
    folder = sales.parent / "tests"
    folder.mkdir()
    for name in ("conftest", "test_parts"):
        module = ModuleType(name)
        module.__file__ = str(folder / f"{name}.py")
        # Under another name: there may be a real one.
        sys.modules[f"{name}_beside_this"] = module
    sys.path.insert(0, str(folder))
    assert needed_python_path(load_family(str(sales)), AT_START) == []


@pytest.mark.parametrize("before", [None, "/before"])
def test_child_processes_get_the_extended_pythonpath(
    monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    if before is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", before)
    with extended_python_path(["/one", "/two"]):
        assert os.environ["PYTHONPATH"] == os.pathsep.join(filter(None, ["/one", "/two", before]))
    assert os.environ.get("PYTHONPATH") == before
    with extended_python_path([]):
        assert os.environ.get("PYTHONPATH") == before
