"""The test follows the tutorial: it writes the files, makes the change and runs the commands.

The output of a command is compared with the page line by line, in order. Lines are compared by their first
word, because the details of a failure change with the generator of scenarios. Printed commands are compared
word by word, except for their seeds. To update the tutorial, set ONCEPROOF_TUTORIAL to the path of a file:
the test writes all output there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from onceproof.harness.model.family_places import load_family
from onceproof.harness.trials.trial import scenario_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "harness" / "docs" / "tutorial.md"

SCENARIOS = 60
"""Scenarios of a passing run and of each run of pytest. The page has more, and shows none of them."""
UP_TO_THE_FAILURE = 10
"""Scenarios of the failing run: the failure of the page is among them. Behind them is another one, which the
page does not show, and which takes longer to shrink than all commands of the page."""

LEFT_OUT = "..."
KEPT = re.compile(r"inside-[0-9a-f]{6}\.json")


class Block(NamedTuple):
    """A block of the tutorial, with the text before it."""

    text: str
    language: str
    content: str

    @property
    def file(self) -> str:
        """The file that the text names last."""
        return re.findall(r"`(\w+\.py)`", self.text)[-1]


class Typed(NamedTuple):
    """A command that the tutorial shows, and what it shows of its output."""

    command: str
    shown: list[str]


def tutorial() -> list[Block]:
    """Return the blocks of the tutorial."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"(.*?)```(\w+)\n(.*?)```\n", text, re.DOTALL)
    return [Block(*block) for block in blocks]


def commands(content: str) -> Iterator[Typed]:
    """Yield the commands of a block, each with the output below it."""
    for part in re.split(r"^\$ ", content, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield Typed(command, [line for line in shown if line.strip() not in ("", LEFT_OUT)])


def shape(line: str) -> str:
    """Return the part of a line that must equal that of the line on the page."""
    if line.lstrip().startswith("onceproof "):
        return re.sub(r"\d{6,}", "SEED", KEPT.sub("inside.json", line))
    first = line.split()[0]
    return "NUMBER" if re.fullmatch(r"[\d,.]+", first) and set(first) != {"."} else first


@dataclass
class Reader:
    """Follows the tutorial in a folder, block by block."""

    folder: Path
    change: tuple[str, str, str] = ("", "", "")
    """File, text before, text after."""
    kept: str = ""
    """The name of the file with the first failure; the page may show another name. Failures that pytest finds
    later have files of their own, which need not be shrunk to the same scenario."""
    outputs: list[tuple[str, str]] = field(default_factory=list)

    def do(self, block: Block) -> None:
        """Write the file, make or undo the change, or run the commands of one block."""
        if block.language == "python":
            (self.folder / block.file).write_text(block.content, encoding="utf-8")
        elif block.language == "diff":
            lines = block.content.splitlines(keepends=True)
            old, new = ("".join(line[1:] for line in lines if line[0] in signs) for signs in (" -", " +"))
            self.change = (block.file, old, new)
            self.replace(*self.change)
        else:
            if "its state back" in block.text:
                file, old, new = self.change
                self.replace(file, new, old)
            for typed in commands(block.content):
                self.type(typed)

    def replace(self, file: str, old: str, new: str) -> None:
        """Replace a text that occurs once in a file."""
        path = self.folder / file
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, old
        path.write_text(text.replace(old, new), encoding="utf-8")

    def type(self, typed: Typed) -> None:
        """Run a command and compare its output with the page."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
        for name in ("CI", "ONCEPROOF_SEED", "ONCEPROOF_PROFILE"):
            environment.pop(name, None)
        # Hypothesis' plugin takes three times as long to import as everything else.
        environment["PYTEST_ADDOPTS"] = f"--onceproof-scenarios {SCENARIOS} -p no:hypothesispytest"
        if typed.command.startswith("pytest"):
            # What pytest finds is not shown: the kept scenario is.
            configure(self.folder, shrink_runs=0)
        command = KEPT.sub(self.kept, typed.command) if self.kept else typed.command
        if "--scenarios" in command:
            # The last option counts.
            command += f" --scenarios {UP_TO_THE_FAILURE}"
        ended = subprocess.run(
            ["sh", "-c", command],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        self.outputs.append((typed.command, ended.stdout))
        assert ended.stderr == "", ended.stderr
        lines = iter([line for line in ended.stdout.splitlines() if line.strip()])
        shapes = map(shape, lines)
        for line in typed.shown:
            assert any(shape(line) == each for each in shapes), f"{line!r} is not in:\n{ended.stdout}"
        if not self.kept and (found := KEPT.findall(ended.stdout)):
            self.kept = found[0]
        broken = "{}" in (self.folder / "inside.py").read_text(encoding="utf-8")
        judges = typed.command.startswith(("onceproof", "pytest"))
        assert ended.returncode == int(broken and judges), ended.stdout


def configure(folder: Path, shrink_runs: int) -> None:
    """Set for how many seconds a failure is shrunk, and how many scenarios a run has that names no number."""
    settings = f"[tool.onceproof]\nscenarios = {SCENARIOS}\nshrink_runs = {shrink_runs}\n"
    (folder.parent / "pyproject.toml").write_text(settings)


def test_each_step_of_the_tutorial_prints_what_the_page_shows(tmp_path: Path) -> None:
    blocks = tutorial()
    assert {block.language for block in blocks} == {"python", "diff", "console"}
    family = next(block.content for block in blocks if block.content.startswith('"""The job of'))
    assert 25 <= len([line for line in family.splitlines() if line.strip()]) <= 35
    reader = Reader(tmp_path / "reader")
    reader.folder.mkdir()
    # The search for a smaller scenario ends by itself. The limit is beyond what a slow machine needs.
    configure(reader.folder, shrink_runs=1000)
    for block in blocks:
        reader.do(block)
    outputs = dict(reader.outputs)
    explained = next(text for command, text in outputs.items() if "explain" in command)
    assert "checkpoint 1" in explained
    pytest_outputs = [text for command, text in reader.outputs if command.startswith("pytest")]
    assert len(pytest_outputs) == 2
    assert f"inside: exactly_once, lost, in the scenario of {reader.kept}" in pytest_outputs[0]
    assert "3 passed" in pytest_outputs[1]
    if shown := os.environ.get("ONCEPROOF_TUTORIAL"):
        Path(shown).write_text("".join(f"$ {command}\n{text}\n" for command, text in reader.outputs))


@pytest.mark.spark
def test_spark_and_python_oracles_of_the_tutorial_family_agree(tmp_path: Path, spark: SparkSession) -> None:
    for block in tutorial()[:2]:
        (tmp_path / block.file).write_text(block.content, encoding="utf-8")
    family = load_family(str(tmp_path / "inside_family.py"))
    scenarios = [scenario_of(family, seed) for seed in range(20)]
    rows = [
        (number, split, offset, timestamp, *value)
        for number, scenario in enumerate(scenarios)
        for split, records in scenario.records.items()
        for offset, (timestamp, value) in enumerate(records)
    ]
    schema = f"scenario_id INT, split STRING, offset BIGINT, timestamp BIGINT, {family.record_schema}"
    spark.createDataFrame(rows, schema).createOrReplaceTempView("records")
    spark_rows = sorted(map(tuple, spark.sql(family.oracle_sql).collect()))
    expected = [
        (number, *row)
        for number, scenario in enumerate(scenarios)
        for row in family.expected(scenario.records, None)  # type: ignore[arg-type]
    ]
    assert spark_rows == sorted(expected)
