"""Which code a report names: real repositories of git, a worktree, no git, and an installed copy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from onceproof.harness.commands.cli import main
from onceproof.harness.trials.revisions import ROOT, engine_version, families_version
from onceproof.reports.render import read

INSTALLED = metadata.version("onceproof")
FAMILY = (ROOT / "scenarios" / "word_count.py").read_text(encoding="utf-8")


def git(folder: Path, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    own = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", "-C", str(folder), *own, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def repository(folder: Path) -> str:
    """Make a repository with a module of the engine and a family; return its commit."""
    (folder / "engine").mkdir(parents=True)
    (folder / "engine" / "graph.py").write_text("one\n")
    (folder / "orders.py").write_text(FAMILY)
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "first")
    return git(folder, "rev-parse", "--short", "HEAD")


def test_a_checkout_is_named_by_its_commit(tmp_path: Path) -> None:
    assert engine_version(tmp_path) == INSTALLED
    commit = repository(tmp_path)
    assert engine_version(tmp_path) == commit
    # What a run leaves behind is no change of the code.
    (tmp_path / "reports" / "out").mkdir(parents=True)
    (tmp_path / "reports" / "out" / "index.html").write_text("")
    assert engine_version(tmp_path) == commit


@pytest.mark.parametrize("changed", ["engine/graph.py", "engine/state/new.py"])
def test_a_changed_or_new_module_is_marked_with_a_plus(tmp_path: Path, changed: str) -> None:
    commit = repository(tmp_path)
    (tmp_path / changed).parent.mkdir(exist_ok=True)
    (tmp_path / changed).write_text("two\n")
    assert engine_version(tmp_path) == f"{commit}+"
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "second")
    assert engine_version(tmp_path) == git(tmp_path, "rev-parse", "--short", "HEAD") != commit


def test_a_worktree_whose_git_is_a_file_has_its_own_commit(tmp_path: Path) -> None:
    repository(tmp_path / "main")
    git(tmp_path / "main", "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "other"))
    (tmp_path / "other" / "engine" / "graph.py").write_text("two\n")
    git(tmp_path / "other", "commit", "--quiet", "--all", "--message", "second")
    assert (tmp_path / "other" / ".git").is_file()
    versions = [engine_version(tmp_path / name) for name in ("main", "other")]
    assert versions == [git(tmp_path / name, "rev-parse", "--short", "HEAD") for name in ("main", "other")]
    assert versions[0] != versions[1]


def test_without_git_the_version_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert engine_version(tmp_path) == INSTALLED
    assert families_version([str(tmp_path / "orders.py")]) == ""


def test_a_repository_without_a_commit_is_not_named(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    assert engine_version(tmp_path) == INSTALLED


def test_variables_of_a_hook_do_not_name_another_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = repository(tmp_path / "one")
    repository(tmp_path / "two")
    (tmp_path / "two" / "engine" / "graph.py").write_text("two\n")
    git(tmp_path / "two", "commit", "--quiet", "--all", "--message", "second")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "two" / ".git"))
    assert engine_version(tmp_path / "one") == commit


def test_an_installed_copy_in_the_repository_of_a_user_has_its_version(tmp_path: Path) -> None:
    """The environment is below the user's repository, whose commit is not that of onceproof."""
    commit = repository(tmp_path)
    packages = tmp_path / ".venv" / "site-packages"
    wheel = Path(metadata.distribution("onceproof")._path)  # type: ignore[attr-defined]
    shutil.copytree(wheel, packages / wheel.name)
    ignored = shutil.ignore_patterns("__pycache__", "out")
    shutil.copytree(ROOT / "onceproof", packages / "onceproof", ignore=ignored)
    program = (
        "import sys; from onceproof.harness.trials import revisions as its;"
        "print(its.__file__); print(its.engine_version()); print(its.families_version(sys.argv[1:]))"
    )
    # -S: the environment of the tests does not take part, apart from what the copy imports.
    paths = [str(packages), *[path for path in sys.path if path.endswith("site-packages")]]
    ended = subprocess.run(
        [sys.executable, "-S", "-c", program, "orders.py", "word_count"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=True,
    )
    file, version, families = ended.stdout.splitlines()
    assert Path(file).is_relative_to(packages)
    assert (version, families) == (INSTALLED, f"{tmp_path.name} {commit}")


def test_families_are_named_by_the_repository_of_their_file(tmp_path: Path) -> None:
    shop, bank = repository(tmp_path / "shop"), repository(tmp_path / "bank")
    addresses = ["word_count", str(tmp_path / "shop" / "orders.py"), f"{tmp_path / 'bank' / 'orders.py'}:job"]
    assert families_version(addresses) == f"bank {bank}, shop {shop}"
    # A file that the commit does not have.
    new = tmp_path / "shop" / "new.py"
    new.write_text(FAMILY)
    assert families_version([str(tmp_path / "shop" / "orders.py")]) == f"shop {shop}"
    assert families_version([str(new)]) == f"shop {shop}+"
    # A changed file, though not that of the family: the family may import it.
    (tmp_path / "bank" / "engine" / "graph.py").write_text("two\n")
    assert families_version([str(tmp_path / "bank" / "orders.py")]) == f"bank {bank}+"


def test_families_of_no_repository_and_of_this_checkout_are_not_named(tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text(FAMILY)
    own = str(ROOT / "scenarios" / "word_count.py")
    assert families_version(["word_count", str(tmp_path / "orders.py"), own]) == ""


def test_the_report_of_a_run_names_both_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commit = repository(tmp_path / "shop")
    monkeypatch.chdir(tmp_path / "shop")
    assert main(["run", "./orders.py", "--scenarios", "2", "--out", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    facts = read(tmp_path / "out").facts
    assert (facts.engine_version, facts.families_version) == (engine_version(), f"shop {commit}")
    assert facts.revision == f"shop {commit}, onceproof {facts.engine_version}"
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert f"<code>shop {commit}</code>" in page
    assert f"<code>{facts.engine_version}</code>" in page
