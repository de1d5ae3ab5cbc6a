"""Families in every form in which a test can name them, on several systems, and their replay commands."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.harness.testing.conftest import User

KINDS = """
from pathlib import Path

import pytest

import beside
from families import forgetful as in_a_package
from onceproof import exactly_once

OBJECT = beside.Kind()


@exactly_once("forgetful.py", scenarios=12)
def test_path_from_the_root():
    pass


@exactly_once("beside.py:OTHER", scenarios=12)
def test_path_from_here_to_an_object():
    pass


@exactly_once(Path(__file__).with_name("families") / "forgetful.py", scenarios=12)
def test_path_in_full():
    pass


@exactly_once(in_a_package, scenarios=12)
def test_module():
    pass


@exactly_once(OBJECT, scenarios=12)
def test_object():
    pass


@exactly_once(beside.Kind, scenarios=12)
def test_class():
    pass


@exactly_once(scenarios=12)
def test_own_module():
    pass
"""

AS_A_CLASS = """
import forgetful_parts as parts


class Kind:
    name = "forgetful"
    generator_version, tasks = parts.generator_version, parts.tasks
    record_schema, row_schema, oracle_sql = parts.record_schema, parts.row_schema, parts.oracle_sql

    def generate(self, random):
        return parts.generate(random)

    def job(self, env, io):
        parts.job(env, io)

    def expected(self, records, declared):
        return parts.expected(records, declared)


OTHER = Kind()
"""

KINDS_OF_FAMILY = (
    "test_path_from_the_root",
    "test_path_from_here_to_an_object",
    "test_path_in_full",
    "test_module",
    "test_object",
    "test_class",
    "test_own_module",
)


@pytest.mark.parametrize(
    ("started_in", "kinds"),
    [("", KINDS_OF_FAMILY), ("tests", ("test_path_from_the_root", "test_object", "test_own_module"))],
)
def test_each_way_to_name_a_family_prints_working_commands(
    owner: User, started_in: str, kinds: tuple[str, ...]
) -> None:
    text = (owner.folder / "forgetful.py").read_text()
    owner.write("pytest.ini", "[pytest]\npythonpath = library\n")
    owner.write("library/forgetful_parts.py", text)
    owner.write("tests/beside.py", AS_A_CLASS)
    owner.write("tests/families/__init__.py", "")
    owner.write("tests/families/forgetful.py", text)
    owner.write("tests/test_kinds.py", text + KINDS)
    ended = owner.pytest("-k", " or ".join(kinds), folder=started_in)
    assert ended.counts()["failed"] == len(kinds), ended.out
    failures = ended.out.split("\n____")[1:]
    assert len(failures) == len(kinds)
    for kind, failure in zip(kinds, failures, strict=True):
        assert kind in failure.splitlines()[0]
        command = next(line for line in failure.splitlines() if line.startswith("replay:")).split(": ", 1)[1]
        replayed = owner.shell(command, started_in)
        assert replayed.code == 1, (command, replayed.error)
        assert "FAILED exactly_once" in replayed.out
    assert "--family forgetful.py" in failures[0] or started_in
    again = owner.shell(ended.commands("in pytest")[-1], started_in)
    assert "in the scenario of forgetful-" in again.out


def test_family_without_an_address_is_replayed_in_pytest(owner: User) -> None:
    owner.write(
        "test_made.py",
        """
import types

import forgetful
from onceproof import exactly_once


def made():
    return types.SimpleNamespace(**vars(forgetful))


@exactly_once(made(), scenarios=12)
def test_made():
    pass
""",
    )
    ended = owner.pytest()
    assert ended.counts() == {"failed": 1}
    assert ended.commands("replay") == []
    again = owner.shell(ended.commands("in pytest")[0])
    assert again.code == 1
    assert "in the scenario of forgetful-" in again.out


LOCAL = """
from onceproof import exactly_once


@exactly_once("word_count", scenarios=2, system="local")
def test_counts(onceproof):
    assert onceproof.tally.kills


@exactly_once("{family}", scenarios=9, system="local")
def test_forgetful():
    pass
"""


@pytest.mark.local_kill
def test_processes_of_the_local_system_import_the_modules_of_the_test(owner: User) -> None:
    text = (owner.folder / "forgetful.py").read_text()
    owner.write("pytest.ini", "[pytest]\npythonpath = library\n")
    owner.write("library/forgetful_parts.py", text)
    owner.write("beside.py", AS_A_CLASS)
    owner.write("test_local.py", LOCAL.format(family="beside.py:OTHER"))
    ended = owner.pytest()
    assert ended.counts() == {"passed": 1, "failed": 1}, ended.out
    [command] = ended.commands("replay")
    assert command.startswith("PYTHONPATH=library onceproof replay .onceproof/")
    assert command.endswith(" --family beside.py:OTHER --system local")
    # A run that kills real processes may pass. The test asks only whether the command finds the family.
    assert owner.shell(command).code in (0, 1)


SPARK = """
from onceproof import exactly_once


@exactly_once("word_count", scenarios=4, shards=2, system="spark")
def test_counts(onceproof):
    assert onceproof.tally.scenarios == 2


def test_driver_is_still_running(pytestconfig):
    from onceproof.harness.testing.plugin import SYSTEMS

    [spark] = pytestconfig.stash[SYSTEMS].started.values()
    [driver] = spark.drivers._idle
    print("DRIVER", driver.process_id)
"""


@pytest.mark.spark
@pytest.mark.local_kill
def test_tests_of_a_process_share_a_spark_driver_that_pytest_ends(user: User) -> None:
    user.write("test_spark.py", SPARK)
    ended = user.pytest("-s")
    assert ended.counts() == {"passed": 3}, ended.out
    driver = re.search(r"DRIVER (\d+)", ended.out)
    assert driver is not None
    with pytest.raises(ProcessLookupError):
        os.kill(int(driver[1]), 0)
