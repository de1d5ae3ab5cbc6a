"""Programs with several inputs and outputs, a promise for each output, templates, and hooks."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from onceproof.harness.checkers.verdict import Verdict
from onceproof.harness.model.family import NOTHING_DECLARED, FamilyError
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import ROWS_FOUND
from onceproof.harness.model.scenario import Fault, InputRecord
from onceproof.harness.systems.program.system import CommandSystem
from onceproof.harness.trials.trial import check_family
from tests.harness.systems.program.programs import COPIES_LINES, FILES, events_of, program, tried

pytestmark = pytest.mark.local_kill

KILL = Fault("kill_process", "committed", occurrence=3)
SPLITS: dict[str, list[InputRecord]] = {
    "orders": [(n, (n, "o")) for n in range(4)],
    "payments-0": [(n, (10 + n, "p")) for n in range(3)],
}
SORTS = """
    import json, os, sys, time
    orders, payments, kept, logged = sys.argv[1:]
    log = open(logged + "/log.jsonl", "a")
    while True:
        for given in (orders + "/orders.jsonl", payments + "/payments-0.jsonl"):
            for line in open(given):
                number = json.loads(line)["id"] if line.endswith("\\n") else None
                path = f"{kept}/{number}.jsonl"
                if number is not None and not os.path.exists(path):
                    log.write(json.dumps({"id": number, "key": json.loads(line)["key"]}) + "\\n")
                    log.flush()
                    WAITS
                    with open(kept + "/.new", "w") as file:
                        file.write(line)
                    os.replace(kept + "/.new", path)
        time.sleep(0.01)
"""
"""Logs a record before it keeps it, and repeats the log of one that it had not kept when it died."""
WAITS = "time.sleep(0 if os.path.exists('second') else 600) if number == 2 else None"
ENDS = """
[[input]]
name = "orders"
kind = "files"
[[input]]
name = "payments"
kind = "files"
splits = "pay*"
[[output]]
name = "kept"
kind = "files"
columns = ["id"]
[[output]]
name = "logged"
kind = "files"
columns = ["id", "key"]
promise = "at_least_once"
[done]
quiet_seconds = 300
most_seconds = 600
"""
ORACLE = """
from onceproof import Workload
record_schema = {"orders": "id BIGINT, key STRING", "payments": "id BIGINT, key STRING"}
row_schema = {"kept": "id BIGINT", "logged": "id BIGINT, key STRING"}
def generate(random):
    return Workload({"orders": [(0, (0, "o"))], "payments-0": [(0, (10, "p"))]})
def expected(records, declared):
    values = [value for split in records.values() for _, value in split]
    return {"kept": [(number,) for number, _ in values], "logged": values}
"""


def sorter(folder: Path, text: str = SORTS.replace("WAITS", "pass"), ends: str = ENDS) -> Path:
    (folder / "oracle.py").write_text(ORACLE)
    path = program(folder, text, ends, begin='oracle = "oracle.py"')
    words = '"{input.orders}", "{input.payments}", "{output.kept}", "{output.logged}"'
    path.write_text(path.read_text().replace('"{input}", "{output}"', words))
    return path


def after_a_kill(path: Path) -> Verdict:
    """Kill the program when it has logged a record that it has not kept."""
    # Rows 0, 1 and the log of row 2: five rows are seen before the death.
    kill = Fault("kill_process", "committed", occurrence=5)
    path.write_text(
        path.read_text().replace("[done]", '[hooks]\nbefore_restart = ["touch", "second"]\n[done]')
    )
    return tried(path, records={**SPLITS, "payments-0": []}, faults=(kill,))[1]


def test_each_input_has_its_splits_and_each_output_its_rows(tmp_path: Path) -> None:
    history, verdict = tried(sorter(tmp_path), records=SPLITS)
    assert verdict.passed, verdict.violations
    rows = {row for _, payload in events_of(history, ROWS_FOUND) for row in payload["rows"]}
    assert {("kept", 3), ("kept", 12), ("logged", 3, "o"), ("logged", 12, "p")} <= rows
    assert len(rows) == 14


def test_rows_repeat_only_where_the_promise_of_the_output_allows(tmp_path: Path) -> None:
    verdict = after_a_kill(sorter(tmp_path, SORTS.replace("WAITS", WAITS)))
    assert verdict.passed, verdict.violations


def test_the_same_rows_fail_where_the_output_promises_exactly_once(tmp_path: Path) -> None:
    ends = ENDS.replace('promise = "at_least_once"', "")
    verdict = after_a_kill(sorter(tmp_path, SORTS.replace("WAITS", WAITS), ends))
    assert [(each.property, each.anomaly) for each in verdict.violations] == [("exactly_once", "duplicated")]
    assert "logged" in str(verdict.violations[0].witness)


OF_TWO = """
    import json, sys, time
    given, kept, logged = open(sys.argv[1] + "/orders.jsonl"), *sys.argv[3:]
    held = []
    while line := given.readline() or time.sleep(0.005) or "-":
        held += [json.loads(line)["id"]] if line != "-" else []
        while len(held) > 1:
            for folder, numbers in ((kept, [held[1], held[0]]), (logged, held[:2])):
                with open(folder + "/rows.jsonl", "a") as file:
                    file.writelines([json.dumps({"id": n * 0.1, "key": "o"}) + "\\n" for n in numbers])
            del held[:2]
"""
"""Swaps two records in one output of two, and gives tenths that are rounded."""


@pytest.mark.parametrize(
    ("kept", "logged", "found"),
    [
        ("tolerance = { id = 1e-9 }", "tolerance = { id = 1e-9 }\nordered_by = {}", []),
        ("tolerance = { id = 1e-9 }\nordered_by = {}", "tolerance = { id = 1e-9 }", ["out of order"]),
        ("tolerance = { id = 1e-9 }", "ordered_by = { key = ['key'] }", ["near miss"]),
    ],
)
def test_each_output_has_its_own_tolerance_and_order(
    tmp_path: Path, kept: str, logged: str, found: list[str]
) -> None:
    ends = ENDS.replace('columns = ["id"]', f'columns = ["id"]\n{kept}')
    ends = ends.replace('promise = "at_least_once"', logged)
    path = sorter(tmp_path, OF_TWO, ends)
    oracle = ORACLE.replace("values = [value", "values = [(value[0] / 10, value[1])")
    (tmp_path / "oracle.py").write_text(oracle.replace("id BIGINT", "id DOUBLE"))
    _, verdict = tried(path, records={"orders": SPLITS["orders"], "payments-0": []})
    assert [each.anomaly for each in verdict.violations] == found
    if found == ["out of order"]:
        assert "kept" in str(verdict.violations[0].witness)
    if found == ["near miss"]:
        assert verdict.violations[0].witness["differences"].keys() == {"id"}


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (
            "def generate",
            "options = __import__('onceproof').FamilyOptions(tolerance={'id': 0.1})\ndef generate",
            r"oracle\.py: several outputs: tolerance and ordered_by belong to each \[\[output\]\]",
        ),
        (
            'return {"kept":',
            'return {"held":',
            r"oracle\.py: \('held', 0\) belongs to no output: return a ma",
        ),
        (
            "def generate",
            "def versions(records):\n    return records['none']\noptions = __import__('onceproof')"
            ".FamilyOptions(table_keys=1, versions=versions)\ndef generate",
            r"oracle\.py:6: seed 0: KeyError: 'none'",
        ),
        ('"payments-0"', '"bills"', r"split 'bills' matches none of orders\*, pay\*; it must match"),
        ("(records, declared)", "(records)", r"expected\(\) is called with \(records, declared\): too many"),
    ],
)
def test_an_oracle_that_does_not_fit_the_ends_is_one_line(
    tmp_path: Path, before: str, after: str, line: str
) -> None:
    path = sorter(tmp_path)
    (tmp_path / "oracle.py").write_text(ORACLE.replace(before, after))
    with pytest.raises(FamilyError, match=line):
        check_family(load_family(str(path)))


def test_without_an_oracle_each_input_has_a_split_and_each_output_all(tmp_path: Path) -> None:
    path = sorter(tmp_path)
    path.write_text(path.read_text().replace('oracle = "oracle.py"', 'columns = { id = "number" }'))
    family = load_family(str(path))
    check_family(family)
    records = family.generate(Random(1)).records
    assert list(records) == ["orders", "payments"]
    rows = family.expected(records, NOTHING_DECLARED)
    numbers = [value[0] for split in records.values() for _, value in split]
    assert sorted(rows) == sorted([(name, number) for name in ("kept", "logged") for number in numbers])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("ordered_by = {}", r"ordered_by: records of several inputs have an order by key only, or by an or"),
        ("tolerance = { ids = 0.1 }", r"output\.kept\.tolerance: no column 'ids'; did you mean id\?"),
    ],
)
def test_a_comparison_that_does_not_fit_its_output_is_one_line(tmp_path: Path, text: str, line: str) -> None:
    path = sorter(tmp_path, ends=ENDS.replace('columns = ["id"]', f'columns = ["id"]\n{text}'))
    path.write_text(path.read_text().replace('oracle = "oracle.py"', ""))
    with pytest.raises(FamilyError, match=line):
        load_family(str(path))


def test_columns_of_the_default_oracle_have_other_names(tmp_path: Path) -> None:
    reads = COPIES_LINES.replace("line = ", "line = ''; line = ")
    path = program(tmp_path, reads, begin='columns = { id = "number", key = "customer" }')
    family = load_family(str(path))
    assert (family.record_schema, family.row_schema) == ("number BIGINT, customer STRING", "number BIGINT")
    _, verdict = tried(path)
    assert verdict.passed, verdict.violations


def test_templates_are_rendered_and_hooks_run_around_each_start(tmp_path: Path) -> None:
    configured = COPIES_LINES.replace(
        "import sys, time",
        "import sys, time; sys.argv[1:] = open('conf/job.conf').read().split(); print('up', flush=True)",
    )
    (tmp_path / "job.conf.template").write_text("{input} {output}\n")
    steps = ["before_start", "after_ready", "before_restart"]
    hooks = "\n".join([f"{step} = ['sh', '-c', 'echo {step} {{start}} >>steps']" for step in steps])
    more = f'[[render]]\ntemplate = "job.conf.template"\nfile = "conf/job.conf"\n[hooks]\n{hooks}\n'
    path = program(tmp_path, configured, FILES + more, more='ready = "up"')
    path.write_text(path.read_text().replace(', "{input}", "{output}"', ""))
    kept = tmp_path / "kept"
    kept.mkdir()
    _, verdict = tried(path, CommandSystem(kept), faults=(KILL,))
    assert [each.anomaly for each in verdict.violations] == ["duplicated"]
    (folder,) = kept.iterdir()
    ran = ["before_start 1", "after_ready 1", "before_restart 2", "after_ready 2"]
    assert (folder / "steps").read_text().splitlines() == ran


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ('[[render]]\ntemplate = "none"\nfile = "x"', r"render\[0\]: .*none: No such file"),
        ('[hooks]\nbefore_start = ["no-such-hook"]', r"hooks\.before_start: no-such-hook: No such file"),
    ],
)
def test_what_cannot_be_done_beside_a_program_is_one_line(tmp_path: Path, more: str, line: str) -> None:
    with pytest.raises(FamilyError, match=rf"job\.toml: {line}"):
        tried(program(tmp_path, COPIES_LINES, FILES + more))
