"""Mistakes that are made in a job: where, which, and where not."""

from __future__ import annotations

import ast
from types import SimpleNamespace

from onceproof.harness.explanation.job_mistakes import job_mistakes, lost_on_restore, one_key

JOB = """
LATE = OutputTag("late")

class Totals:
    def open(self, context):
        self.total = context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        if value[1] > 100:
            yield LATE, value
        self.total.update(value[1])
        ctx.timer_service().register_event_time_timer(value[0])
        yield value

def expected(records):
    return [1 < 2]

stream.key_by(lambda value: value[0]).process(Totals())
if __name__ == "__main__":
    env.execute()
"""
ALL = range(1, JOB.count("\n") + 1)


def mistakes(lines: range = ALL) -> dict[str, int]:
    return {edit.what: edit.line for edit in job_mistakes(ast.parse(JOB), lines, ("expected",))}


def test_each_kind_of_mistake_is_made_once_in_its_line() -> None:
    assert mistakes() == {
        "`self.total` is an attribute that no checkpoint holds": 6,
        "`value[1] > 100` is `value[1] <= 100`": 9,
        "`yield (LATE, value)` is left out": 10,
        "`self.total.update(value[1])` is left out": 11,
        "`ctx.timer_service().register_event_time_timer(value[0])` is left out": 12,
        "`ctx.timer_service().register_event_time_timer(value[0])` is due 1 ms later": 12,
        "register_event_time_timer is register_processing_time_timer": 12,
        "key_by(lambda value: value[0]) gives all records the same key": 18,
    }


def test_a_line_that_never_ran_gets_no_mistake_and_the_graph_always_does() -> None:
    assert set(mistakes(range(0)).values()) == {18}


def test_each_mistake_changes_the_code_and_is_undone() -> None:
    tree = ast.parse(JOB)
    before = ast.unparse(tree)
    for edit in job_mistakes(tree, ALL, ("expected",)):
        with edit.applied():
            assert ast.unparse(tree) != before
            compile(tree, "job.py", "exec")
        assert ast.unparse(tree) == before


def test_state_in_an_attribute_is_another_state_in_each_attempt() -> None:
    descriptor = SimpleNamespace(name="total")
    names = {lost_on_restore(descriptor).name for _ in range(3)}
    assert len(names) == 3
    assert descriptor.name == "total"


def test_a_shared_key_has_the_type_of_the_keys_that_it_replaces() -> None:
    assert {one_key(lambda value: value)(each) for each in ("ada", "bob")} == {""}
    assert {one_key(SimpleNamespace(get_key=int))(each) for each in "12"} == {0}
