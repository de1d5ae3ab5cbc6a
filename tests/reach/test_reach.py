"""The gaps between scenarios and engine: how they are read, and that their list does not rot."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from tests.reach import __main__ as command
from tests.reach.gaps import NEVER_BEFORE_A_FAULT, NEVER_RUNS, Gap, Missing, Module, Reach, Share, gaps_of
from tests.reach.listed import ALL_FUNCTIONS, Group, ListError, differences, entries, read_list
from tests.reach.part import ENGINE

SOURCE = dedent(
    """
    def pay(amounts):
        for amount in amounts:
            try:
                if amount < 0:
                    return refuse(amount)
            except ValueError:
                continue
        return None
    """
)


def part(run: list[int], missing: list[int], branches: list[list[int]]) -> dict[str, list[object]]:
    return {"executed_lines": run, "missing_lines": missing, "missing_branches": branches}


def gaps(tmp_path: Path, everything: dict[str, list[object]], followed: dict[str, list[object]]) -> list[str]:
    file = tmp_path / "module.py"
    file.write_text(SOURCE)
    return [what for what, _ in gaps_of(everything, followed, Module(file))]


def test_a_function_that_never_runs_has_one_gap(tmp_path: Path) -> None:
    never = part([], [3, 4, 5, 6, 7, 8, 9], [[3, 4], [3, 9], [5, 3], [5, 6]])
    assert gaps(tmp_path, never, never) == [NEVER_RUNS]


def test_branches_and_handlers_are_named_by_their_text(tmp_path: Path) -> None:
    some = part([3, 4, 5, 9], [6, 7, 8], [[5, 6]])
    assert gaps(tmp_path, some, some) == ["never: if amount < 0:", "never: except ValueError:"]
    always = part([3, 4, 5, 6], [7, 8, 9], [[3, 9], [5, 3]])
    assert gaps(tmp_path, always, some)[:2] == ["always: for amount in amounts:", "always: if amount < 0:"]


def test_what_runs_only_after_the_last_fault_is_a_gap(tmp_path: Path) -> None:
    everything = part([3, 4, 5, 6, 7, 8, 9], [], [])
    assert gaps(tmp_path, everything, part([], [3], [])) == [NEVER_BEFORE_A_FAULT]


def reach(*found: Gap) -> Reach:
    return Reach(dict.fromkeys(found, Missing(3, 2)), {"task/a.py": ["A.x", "A.y"]}, {})


def test_a_gap_counts_the_lines_and_branches_that_it_leaves_out(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(SOURCE)
    some = part([3, 9], [4, 5, 6, 7, 8], [[3, 4], [5, 6], [5, 3]])
    assert list(gaps_of(some, some, Module(file))) == [("never: for amount in amounts:", Missing(5, 3))]


def test_what_no_simulated_job_can_run_is_left_out_of_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "CORE", ("task",))
    x, y = Gap("task/a.py", "A.x", NEVER_RUNS), Gap("task/a.py", "A.y", NEVER_RUNS)
    whole = Share(lines=20, lines_run=14, branches=8, branches_run=4, functions=5, functions_run=3)
    found = replace(reach(x, y), shares={"task": whole})
    groups = [Group("only real processes", "", [x]), Group("a finding", "a family", [y])]
    *_, core, simulated = command.share_lines(found, groups)
    assert core.split()[1:] == ["70.0", "%", "50.0", "%", "3", "of", "5"]
    assert simulated.split()[2:] == ["82.4", "%", "66.7", "%", "3", "of", "4"]


def group(*listed: Gap) -> list[Group]:
    return [Group("a reason", "", listed)]


def test_new_and_closed_gaps_are_differences() -> None:
    x, y = Gap("task/a.py", "A.x", NEVER_RUNS), Gap("task/a.py", "A.y", NEVER_RUNS)
    assert list(differences(group(x), reach(x))) == []
    [new] = differences(group(x), reach(x, y))
    assert new.startswith("task/a.py: A.y: never runs; give the reason")
    [closed] = differences(group(x, y), reach(x))
    assert closed.startswith("task/a.py: A.y: no longer 'never runs'; remove it")


def test_one_function_that_runs_ends_an_entry_for_a_whole_file() -> None:
    x, y = Gap("task/a.py", "A.x", NEVER_RUNS), Gap("task/a.py", "A.y", NEVER_RUNS)
    whole = group(Gap("task/a.py", ALL_FUNCTIONS, NEVER_RUNS))
    assert list(differences(whole, reach(x, y))) == []
    assert len(list(differences(whole, reach(x)))) == 1
    gone = group(Gap("task/gone.py", ALL_FUNCTIONS, NEVER_RUNS))
    assert len(list(differences(gone, reach()))) == 1


def test_entries_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    found = [
        Gap("task/a.py", "A.x", NEVER_RUNS),
        Gap("task/a.py", "A.y", NEVER_BEFORE_A_FAULT),
        Gap("task/a.py", "A.z", """never: if name in ("", "it's"):"""),
        Gap("task/a.py", "A.z", 'always: if text == "\\0":'),
    ]
    file = tmp_path / "unreached.toml"
    functions = {"task/a.py": ["A.x", "A.y", "A.z"]}
    lines = entries(found, Reach(dict.fromkeys(found, Missing()), functions, {}))
    file.write_text("\n".join(['[[group]]\nreason = "a reason"', *lines]))
    [written] = read_list(file)
    assert sorted(written.gaps) == sorted(found)


def test_a_gap_listed_twice_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "unreached.toml"
    entry = '[[group]]\nreason = "a reason"\n[group.never_runs]\n"task/a.py" = ["A.x"]\n'
    file.write_text(entry * 2)
    with pytest.raises(ListError, match=r"task/a\.py: A\.x: 'never runs' is listed twice"):
        read_list(file)


def functions_in(path: Path) -> Iterator[str]:
    def inside(node: ast.AST, prefix: str) -> Iterator[str]:
        for each in ast.iter_child_nodes(node):
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield f"{prefix}{each.name}"
                yield from inside(each, f"{prefix}{each.name}.")
            else:
                yield from inside(each, prefix)

    yield from inside(ast.parse(path.read_text(encoding="utf-8")), "")


def test_the_list_names_functions_that_exist() -> None:
    listed: dict[str, set[str]] = {}
    for each in read_list():
        assert each.reason
        for gap in each.gaps:
            listed.setdefault(gap.path, set()).add(gap.function)
    for path, functions in listed.items():
        assert functions - {ALL_FUNCTIONS} - set(functions_in(ENGINE / path)) == set(), path


def test_some_scenarios_reach_the_core_and_no_real_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "PARTS", 1)
    found = command.measured(6)
    share = found.shares["task"]
    assert 0.5 < share.lines_run / share.lines < 1.0
    missing = {gap.function for gap in found.gaps if gap.what == NEVER_RUNS}
    assert "Task.handle" not in missing
    assert "KafkaSource.__init__" in missing
    assert any(gap.what == NEVER_BEFORE_A_FAULT for gap in found.gaps)


def test_a_part_that_fails_fails_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "SEED", "five")
    with pytest.raises(command.PartFailed, match="ended with 1"):
        command.measured(1)
