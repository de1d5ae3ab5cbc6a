"""Edits of a job: where they are made, what they change, and that they are undone."""

from __future__ import annotations

import ast

from onceproof.harness.explanation.edits import Edit, edits_of

JOB = """
class Totals:
    def open(self, context):
        self.total.clear()

    def process_element(self, value, ctx):
        while value:
            self.total.clear()
        ctx.timer_service().register_processing_time_timer(value[1])
        yield LATE, value

def expected(records):
    return sorted(records[0])
"""
ALL = range(1, 15)


def edits(lines: range = ALL) -> list[Edit]:
    return [edit for row in edits_of(ast.parse(JOB), lines, ("expected",)) for edit in row]


def edited(counterfactual: str) -> str:
    tree = ast.parse(JOB)
    [edit] = [
        each
        for row in edits_of(tree, ALL, ("expected",))
        for each in row
        if each.counterfactual == counterfactual
    ]
    with edit.applied():
        text = ast.unparse(tree)
        compile(tree, "job.py", "exec")
    assert ast.unparse(tree) == ast.unparse(ast.parse(JOB)), "the edit is not undone"
    return text


def test_a_timer_is_put_on_the_other_clock() -> None:
    text = edited("with register_event_time_timer instead")
    assert "register_event_time_timer(value[1])" in text


def test_a_row_of_a_side_output_goes_to_the_main_output() -> None:
    assert "yield value" in edited("with the row in the main output")


def test_another_field_is_read() -> None:
    assert "register_processing_time_timer(value[0])" in edited("with `value[0]` instead")


def test_only_lines_that_were_executed_are_edited() -> None:
    assert {edit.line for edit in edits(range(9, 10))} == {9}


def test_loops_and_what_the_family_is_judged_by_are_left_alone() -> None:
    assert {7, 8, 12, 13}.isdisjoint(edit.line for edit in edits())


def test_special_edits_come_before_general_ones() -> None:
    first, *_, last = edits_of(ast.parse(JOB), ALL, ())
    assert any("should be register_event_time_timer" in edit.what for edit in first)
    assert not any("should not be there" in edit.what for edit in [*first, *last])
