"""Environments of programs: made once for a list of packages, and one line where they cannot be."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from onceproof.harness.services.service import ServiceError
from onceproof.harness.systems.kit.packages import python_with

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return tmp_path / "cache"


def wheel_of(folder: Path) -> str:
    """Write the smallest wheel that pip takes, and return its path."""
    path = folder / "tiny-1.0-py3-none-any.whl"
    about = "tiny-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny.py", "SIZE = 1\n")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr(
            f"{about}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(
            f"{about}/RECORD", f"tiny.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n"
        )
    return str(path)


def test_without_packages_the_python_is_our_own() -> None:
    assert python_with(()) == sys.executable


def test_packages_are_installed_once_in_an_environment_of_their_own(tmp_path: Path, cache: Path) -> None:
    packages = (wheel_of(tmp_path),)
    python = python_with(packages)
    assert python.startswith(str(cache))
    seen = subprocess.run(
        [python, "-c", "import tiny; print(tiny.SIZE)"], capture_output=True, text=True, check=True
    )
    assert seen.stdout == "1\n"
    Path(packages[0]).unlink()
    assert python_with(packages) == python


def test_an_environment_that_was_not_finished_is_made_again(tmp_path: Path, cache: Path) -> None:
    wheel = Path(wheel_of(tmp_path))
    kept = wheel.rename(tmp_path / "kept")
    with pytest.raises(ServiceError, match=r"the packages .*tiny.* cannot be installed: "):
        python_with((str(wheel),))
    kept.rename(wheel)
    python = python_with((str(wheel),))
    subprocess.run([python, "-c", "import tiny"], check=True)


def test_a_package_that_does_not_exist_is_one_line() -> None:
    with pytest.raises(
        ServiceError, match=r"the packages no-such-package-here cannot be installed: "
    ) as caught:
        python_with(("no-such-package-here",))
    assert "\n" not in str(caught.value)
