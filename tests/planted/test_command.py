"""The document of planted bugs: of the catalogue, and of a user's file."""

from __future__ import annotations

import json

import pytest

from onceproof.harness.commands.cli import main as onceproof
from onceproof.harness.model.exit_codes import PASSED, USAGE
from tests.planted.__main__ import main
from tests.planted.catalogue import file_of

BUG = "FLINK-9269"
OPTIONS = ("word_count", "--only", BUG, "--no-shrink", "-n", "1", "--json")


def test_catalogue_and_file_print_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(OPTIONS) == PASSED
    [of_catalogue] = json.loads(capsys.readouterr().out)
    assert onceproof(["mutants", "--load", file_of(BUG), *OPTIONS]) == PASSED
    [of_file] = json.loads(capsys.readouterr().out)
    assert (of_catalogue["id"], of_catalogue["killed"], of_catalogue["family"]) == (BUG, True, "word_count")
    measured = {"seconds": 0, "cpu_seconds": 0}
    assert {**of_file, **measured} == {**of_catalogue, **measured}


def test_unknown_bug_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "FLINK-9296"]) == USAGE
    assert "unknown mutant 'FLINK-9296': did you mean FLINK-" in capsys.readouterr().err
