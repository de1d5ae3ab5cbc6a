"""The reference of the family names each member, with an example that is Python and runs."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest

from onceproof.harness.model.chance import Chance
from onceproof.harness.model.family import (
    Declared,
    Family,
    FamilyOptions,
    JobIO,
    Workload,
    family_of,
)
from onceproof.harness.model.seeds import scenario_seed
from onceproof.harness.trials.trial import check_family, scenario_of, try_scenario

PAGE = (Path(__file__).parents[2] / "harness" / "docs" / "family-reference.md").read_text(encoding="utf-8")


def public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def table(heading: str) -> dict[str, str]:
    """Return by name the examples in the table whose first column has this heading."""
    rows = PAGE.partition(f"| {heading} |")[2].partition("\n\n")[0].splitlines()[2:]
    found = {}
    for row in rows:
        names, example = re.findall(r"`([^`]*)`", row)[:2]
        found[names] = example
    return found


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("part of a `Workload`", {field.name for field in fields(Workload)}),
        ("draw of `Chance`", public(Chance)),
        ("member of `io`", public(JobIO)),
        ("member of `declared`", {field.name for field in fields(Declared)}),
        ("option", {field.name for field in fields(FamilyOptions)}),
    ],
)
def test_reference_has_each_name_with_an_example(heading: str, names: set[str]) -> None:
    examples = table(heading)
    assert set(examples) == names
    for name, example in examples.items():
        text = f"dict({example})" if heading == "option" else example
        ast.parse(text)
        assert name in example or heading == "part of a `Workload`", (name, example)


def test_reference_has_a_section_for_each_member() -> None:
    sections = re.findall(r"^### (.+)$", PAGE, re.MULTILINE)
    assert {name for section in sections for name in section.split(" and ")} == public(Family)
    assert "\n## Options\n" in PAGE


def test_examples_are_one_family_that_passes() -> None:
    members: dict[str, object] = {"__name__": "payments"}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    # The last one is that of the options, which is another family's.
    for block in blocks[:-1]:
        exec(block, members)
    family = family_of(SimpleNamespace(**members), "the page")
    check_family(family)
    for number in range(5):
        scenario = scenario_of(family, scenario_seed(0, family.name, number))
        assert try_scenario(family, scenario).verdict.passed
    exec(blocks[-1], members)
    assert isinstance(members["options"], FamilyOptions)
