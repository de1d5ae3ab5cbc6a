"""The pytest plugin in a user's project: passing tests, failing tests, and their output."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from onceproof.harness.checkers.verdict import is_same_failure
from tests.planted.catalogue import file_of

if TYPE_CHECKING:
    from tests.harness.testing.conftest import PytestResult, User

SOUND = """
from onceproof import exactly_once


@exactly_once("sales.py", scenarios=20)
def test_sales():
    pass
"""

BROKEN = SOUND.replace("sales", "forgetful")


def assert_replays(user: User, ended: PytestResult, folder: str = "") -> None:
    """Run each printed command, and check that it fails in the same way."""
    first = next(line for line in ended.out.splitlines() if line.startswith("forgetful: "))
    property_, anomaly = first.removeprefix("forgetful: ").split(", in ")[0].split(", ")
    for title in ("replay", "original"):
        command = ended.commands(title)[0]
        replayed = user.shell(f"{command} --json", folder)
        assert replayed.code == 1, replayed.error
        assert is_same_failure(tuple(json.loads(replayed.out)["signature"]), (property_, anomaly))
    again = user.shell(ended.commands("in pytest")[0], folder)
    assert again.code == 1, again.out
    assert re.search(r"^forgetful: \w+, [\w ]+, in the scenario of ", again.out, re.MULTILINE)


def test_correct_family_passes_without_output(owner: User) -> None:
    owner.write("test_sales.py", SOUND)
    ended = owner.pytest()
    assert ended.code == 0, ended.out
    assert ended.counts() == {"passed": 1}
    assert "warning" not in ended.out
    assert "seed" not in ended.out
    assert not (owner.folder / ".onceproof").exists()


def test_incorrect_family_fails_its_test_with_a_complete_text(owner: User) -> None:
    owner.write("test_forgetful.py", BROKEN)
    ended = owner.pytest("--onceproof-shrink-runs", "500")
    assert ended.code == 1, ended.out
    assert ended.counts() == {"failed": 1}
    lines = ended.out.splitlines()
    # The line that is also in the summary, the first line of the explanation, the small case, the rows.
    first = next(number for number, line in enumerate(lines) if line.startswith("forgetful: exactly_once, "))
    assert re.search(r", in \d+ of \d+ scenarios of seed 0$", lines[first])
    assert lines[first + 1].startswith("Row (shop-")
    assert lines[first + 2].startswith("forgetful.py:")
    assert "outside Flink state" in lines[first + 2]
    assert lines[first + 4].startswith("shrunk to ")
    assert lines[first + 5].startswith("  shop-")
    assert any(line.startswith(("missing rows:", "wrong rows:")) for line in lines)
    assert any(line.startswith("FAILED test_forgetful.py::test_forgetful - ") for line in lines)
    assert "Traceback" not in ended.out
    assert_replays(owner, ended)


def test_failures_are_stored_in_a_folder_ignored_by_git(owner: User) -> None:
    owner.write("test_forgetful.py", BROKEN)
    ended = owner.pytest()
    assert "*" in (owner.folder / ".onceproof/.gitignore").read_text().splitlines()
    folder = owner.folder / ".onceproof/test_forgetful.test_forgetful"
    kept = sorted(path.name for path in folder.iterdir())
    small = [name for name in kept if not name.endswith(".original.json")]
    assert sorted([*small, *(name.replace(".json", ".original.json") for name in small)]) == kept
    [command] = ended.commands("replay")
    assert command.split()[2].removeprefix(".onceproof/test_forgetful.test_forgetful/") in small
    assert owner.pytest("--onceproof-out", "elsewhere").code == 1
    assert sorted(path.name for path in (owner.folder / "elsewhere").rglob("*.json")) == kept
    assert not (owner.folder / "elsewhere/.gitignore").exists()


def test_body_runs_after_the_scenarios_and_reads_their_counts(owner: User) -> None:
    owner.write(
        "test_sales.py",
        SOUND.replace("test_sales()", "test_sales(onceproof, tmp_path)").replace(
            "pass", "assert (onceproof.tally.scenarios, onceproof.tally.kills > 6) == (20, False)"
        ),
    )
    ended = owner.pytest()
    assert ended.counts() == {"failed": 1}
    assert "assert (20, True) == (20, False)" in ended.out


def test_fixture_runs_scenarios_within_a_test(owner: User) -> None:
    owner.write(
        "test_both.py",
        """
        from pathlib import Path

        import pytest


        @pytest.mark.parametrize("family", ["sales.py", "forgetful.py"])
        def test_both(onceproof, family):
            tally = onceproof(family, 20)
            assert tally.scenarios == 20
            assert tally is onceproof.tally


        def test_nothing(onceproof):
            onceproof.tally


        def test_failures_again(onceproof):
            for path in Path(__file__).parent.glob(".onceproof/*/*.json"):
                with pytest.raises(pytest.fail.Exception, match="in the scenario of " + path.name):
                    onceproof.replay(path, "forgetful.py")
                onceproof.replay(str(path.relative_to(Path(__file__).parent)), "forgetful.py")
        """.replace("\n        ", "\n"),
    )
    ended = owner.pytest()
    assert ended.counts() == {"passed": 1, "failed": 3}
    assert "onceproof.tally: this test has run no scenarios yet" in ended.out
    assert "__ test_both[forgetful.py] __" in ended.out
    again = owner.shell(ended.commands("in pytest")[0])
    assert again.counts() == {"failed": 1}
    assert "in the scenario of forgetful-" in again.out
    assert "FAILED test_both.py::test_failures_again - Failed: forgetful: " in ended.out


PLANTED = """
import pytest

from onceproof.harness.checkers.verdict import is_same_failure

from onceproof import exactly_once
from onceproof.harness.model.mutants import find_mutant


@pytest.fixture(autouse=True)
def bug(request):
    if request.node.name != "test_sound":
        with find_mutant("{mutant}", "{file}").applied() as reach:
            yield
        assert reach.times
    else:
        yield


@exactly_once("word_count", scenarios=30)
def test_planted():
    pass


@exactly_once("word_count", scenarios=30)
def test_sound():
    pass
"""


def test_planted_bug_of_the_engine_fails_the_test_of_a_correct_family(user: User) -> None:
    mutant = "offsets-missing"
    user.write("test_planted.py", PLANTED.format(mutant=mutant, file=file_of(mutant)))
    ended = user.pytest()
    assert ended.counts() == {"passed": 1, "failed": 1}, ended.out
    assert "word_count: " in ended.out
    # The replay command runs without the planted bug, so the stored scenario passes.
    replayed = user.shell(ended.commands("replay")[0])
    assert replayed.code == 0, replayed.out


REGRESSIONS = """
from onceproof import exactly_once


@exactly_once("{family}.py", scenarios=40, shards=2, regressions="kept")
def test_one():
    pass
"""


def test_each_regression_file_is_a_test(owner: User) -> None:
    owner.write("test_forgetful.py", BROKEN)
    owner.pytest()
    (owner.folder / "kept").mkdir()
    kept = sorted((owner.folder / ".onceproof").rglob("*[!l].json"))
    for path in kept:
        path.rename(owner.folder / "kept" / path.name)
    owner.write("test_forgetful.py", REGRESSIONS.format(family="forgetful"))
    listed = owner.pytest("--collect-only", "-q").out.splitlines()
    names = ["1of2", "2of2", *(path.stem for path in kept)]
    assert listed[: len(names)] == [f"test_forgetful.py::test_one[{name}]" for name in names]
    ended = owner.pytest("-k", kept[0].stem)
    assert ended.counts()["failed"] == 1
    assert ended.commands("replay") == [f"onceproof replay kept/{kept[0].name} --family forgetful.py"]
    # After the bug is fixed the regression files are still run.
    mended = (owner.folder / "sales.py").read_text().replace('name = "sales"', 'name = "forgetful"')
    owner.write("forgetful.py", mended)
    assert owner.pytest().counts() == {"passed": len(names)}
    # Scenarios of another family are refused.
    owner.write("test_forgetful.py", REGRESSIONS.format(family="sales"))
    ended = owner.pytest()
    assert ended.counts() == {"passed": 2, "failed": len(kept)}
    assert "a scenario of family 'forgetful', not of 'sales'" in ended.out


def test_known_failure_is_xfail_and_new_failure_fails(owner: User) -> None:
    owner.write("test_forgetful.py", BROKEN.replace("20", "60"))
    entry = '[[tool.onceproof.known]]\nfamily = "forgetful"\nproperty = "{}"\nanomaly = "{}"\n'
    wrong = (
        entry.format("exactly_once", "wrong value")
        + 'since = "2026-01-31"\nwhy = "totals are kept in a dict"\n'
    )
    owner.write("pyproject.toml", wrong)
    ended = owner.pytest("-rx")
    assert ended.counts() == {"failed": 1}
    assert "known: forgetful: exactly_once, wrong value, in " in ended.out
    assert "(since 2026-01-31: totals are kept in a dict)" in ended.out
    assert all(" exactly_once, wrong value" not in line for line in ended.out.splitlines()[:9])
    others = [("exactly_once", "lost"), ("exactly_once", "duplicated")]
    others += [("restore_anywhere", anomaly) for anomaly in ("wrong value", "lost", "duplicated")]
    owner.write("pyproject.toml", wrong + "".join(entry.format(*each) for each in others))
    ended = owner.pytest("-rx")
    assert ended.code == 0, ended.out
    assert ended.counts() == {"xfailed": 1}
    assert "XFAIL test_forgetful.py::test_forgetful - known: forgetful: " in ended.out


def test_junit_file_is_valid_for_records_with_control_characters(owner: User) -> None:
    text = (owner.folder / "forgetful.py").read_text()
    assert 'f"shop-{index}"' in text
    owner.write("forgetful.py", text.replace('f"shop-{index}"', 'f"<\\x1b\\x00\\ufffe&{index}"'))
    owner.write("test_forgetful.py", BROKEN)
    owner.pytest("--junit-xml", "junit.xml")
    [case] = ElementTree.parse(owner.folder / "junit.xml").iter("testcase")
    [failure] = case.findall("failure")
    assert failure.attrib["message"].startswith("Failed: forgetful: ")
    assert "onceproof replay .onceproof/" in (failure.text or "")
    assert r"<\x1b\x00\ufffe&0" in (failure.text or "")


CLASSES = """
import unittest

from onceproof import exactly_once


@exactly_once("sales.py", scenarios=20)
class TestMine:
    def test_one(self):
        pass

    @exactly_once("forgetful.py", scenarios=60, shards=2)
    def test_two(self):
        pass


class Old(unittest.TestCase):
    @exactly_once("forgetful.py", scenarios=60, shards=2)
    def test_three(self):
        pass


@exactly_once("sales.py", scenarios=20)
@exactly_once("forgetful.py", scenarios=60, shards=2)
def test_four():
    pass
"""


def test_classes_unittest_cases_and_several_families_are_run(owner: User) -> None:
    owner.write("test_classes.py", CLASSES)
    ended = owner.pytest("-v")
    outcomes = {
        line.split("::", 1)[1].split()[0]: line.split()[1]
        for line in ended.out.splitlines()
        if line.startswith("test_classes.py::")
    }
    assert outcomes == {
        "TestMine::test_one": "PASSED",
        "TestMine::test_two[sales]": "PASSED",
        "TestMine::test_two[forgetful-1of2]": "FAILED",
        "TestMine::test_two[forgetful-2of2]": "FAILED",
        "Old::test_three": "FAILED",
        "test_four[sales]": "PASSED",
        "test_four[forgetful-1of2]": "FAILED",
        "test_four[forgetful-2of2]": "FAILED",
    }


def test_decorated_test_fails_without_the_plugin(owner: User) -> None:
    owner.write("test_sales.py", SOUND)
    ended = owner.pytest(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert ended.code != 0
    ended = owner.shell("PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 pytest")
    assert "fixture 'onceproof' not found" in ended.out
    assert ended.counts()["error"] == 1


UNUSED = """
import sys


def test_unused():
    ours = {name for name in sys.modules if name.split(".")[0] == "onceproof"}
    light = {"", ".harness", ".harness.testing", ".harness.testing.plugin", ".harness.testing.scenario_plan"}
    light |= {".harness.generation", ".harness.generation.profiles", ".harness.model", ".harness.model.seeds"}
    assert ours == {f"onceproof{name}" for name in light}
    assert not {"msgspec", "numpy", "pyspark", "hypothesis.strategies"} & set(sys.modules)
"""


def test_unused_plugin_imports_nothing(user: User) -> None:
    user.write("test_unused.py", textwrap.dedent(UNUSED))
    ended = user.started_pytest()
    assert ended.code == 0, ended.out
    assert "onceproof" not in ended.out.replace("plugins: onceproof-", "")
    assert Path(user.folder, ".onceproof").exists() is False
