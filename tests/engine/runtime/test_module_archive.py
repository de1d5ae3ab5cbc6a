"""Folders of modules on their way to Spark's executors: what travels, and what a worker can import."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from onceproof.engine.runtime import module_archive
from onceproof.engine.runtime.module_archive import (
    ModuleArchive,
    import_from,
    modules_of_program,
    packed_modules,
    unpacked,
)
from tests.patience import PATIENCE_SECONDS


def written(folder: Path, **files: str) -> Path:
    """Write files, whose names hold "__" for a slash and "_dot_" for a dot."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def names_in(archive: ModuleArchive) -> list[str]:
    return zipfile.ZipFile(BytesIO(archive.data)).namelist()


def test_modules_packages_and_small_files_beside_them_travel(tmp_path):
    folder = written(tmp_path, job_dot_py="", cities_dot_json="{}", deep__below_dot_py="")
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").touch()
    (folder / "package" / "table.csv").write_text("a,b\n")
    assert sorted(names_in(packed_modules(folder))) == [
        "cities.json",
        "deep/below.py",
        "job.py",
        "package/__init__.py",
        "package/table.csv",
    ]


def test_big_data_hidden_files_environments_and_what_links_lead_to_stay(tmp_path):
    outside = written(tmp_path / "outside", secret_dot_py="", more__deep_dot_py="")
    folder = written(tmp_path / "inside", job_dot_py="", venv__site_dot_py="", data__rows_dot_csv="")
    written(folder, **{"_dot_git__hook_dot_py": "", "_dot_env": "password", "not-importable__x_dot_py": ""})
    (folder / "venv" / "pyvenv.cfg").touch()
    (folder / "big.csv").write_bytes(bytes(module_archive.LARGEST_DATA + 1))
    (folder / "secret.py").symlink_to(outside / "secret.py")
    (folder / "more").symlink_to(outside / "more")
    assert names_in(packed_modules(folder)) == ["job.py"]


def test_equal_folders_give_equal_archives_at_other_times_and_places(tmp_path):
    first = written(tmp_path / "first", job_dot_py="1", deep__more_dot_py="2")
    second = written(tmp_path / "second", deep__more_dot_py="2", job_dot_py="1")
    os.utime(second / "job.py", (1, 1))
    assert packed_modules(first).data == packed_modules(second).data
    written(second, job_dot_py="3")
    assert packed_modules(first).data != packed_modules(second).data


def test_a_folder_that_is_too_large_does_not_travel_and_says_so(tmp_path, monkeypatch):
    folder = written(tmp_path, **{f"m{number}_dot_py": "x" * 100 for number in range(5)})
    monkeypatch.setattr(module_archive, "MOST_ENTRIES", 4)
    archive = packed_modules(folder)
    assert (archive.data, archive.objection) == (b"", f"{folder} holds more than 4 files and folders")
    monkeypatch.setattr(module_archive, "MOST_ENTRIES", 5)
    monkeypatch.setattr(module_archive, "LARGEST_ARCHIVE", 400)
    assert packed_modules(folder).objection == f"{folder} holds more than 0 MB of Python files"
    assert "give the program a smaller folder" in packed_modules(folder).why_missing()


def test_a_worker_imports_the_module_of_its_job_and_not_that_of_the_job_before(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    archives = [
        packed_modules(written(tmp_path / name, traveller_dot_py=f"text = {name!r}"))
        for name in ("first", "second")
    ]
    below = tmp_path / "executor"
    below.mkdir()
    for archive, text in zip(archives, ("first", "second"), strict=True):
        import_from(archive, str(below))
        import_from(archive, str(below))
        assert importlib.import_module("traveller").text == text
        assert sys.path[-1] == str(unpacked(archive, str(below)))
    import_from(ModuleArchive(), str(below))
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("traveller")


def test_the_modules_of_a_test_run_do_not_travel():
    assert modules_of_program() == ModuleArchive()


@pytest.mark.parametrize("command", [["beside/job.py"], ["-m", "beside.job"]])
def test_a_program_sends_the_folder_that_python_imports_from(tmp_path, command):
    text = "from onceproof.engine.runtime.module_archive import modules_of_program\n"
    written(tmp_path, beside__job_dot_py=f"{text}print(modules_of_program().folder)\n")
    done = subprocess.run(
        [sys.executable, *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.stdout.strip() == str(tmp_path if command[0] == "-m" else tmp_path / "beside")
