"""The classes that are generic in PyFlink take subscripts, which change nothing."""

from __future__ import annotations

import operator

import pytest

from onceproof import engine
from onceproof.engine import KeyedProcessFunction, ProcessWindowFunction, TimeWindow, ValueState
from tests.engine.pyflink_wheel import classes, is_generic


def found(name):
    """The engine's class of a name, or None."""
    outer, _, inner = name.partition(".")
    ours = getattr(engine, outer, None)
    return getattr(ours, inner, None) if inner and ours is not None else ours


def test_classes_that_are_generic_in_pyflink_take_subscripts():
    ours = {name: found(name) for name, node in classes().items() if is_generic(node)}
    offered = {name: each for name, each in ours.items() if each is not None}
    assert len(offered) > 30
    assert [name for name, each in offered.items() if not hasattr(each, "__class_getitem__")] == []


def test_class_derived_from_a_subscript_is_derived_from_the_class():
    class Count(ProcessWindowFunction[tuple, tuple, str, TimeWindow]):
        def process(self, key, context: ProcessWindowFunction.Context[TimeWindow], elements):
            return [(key, len(list(elements)))]

    assert Count.__mro__[1] is ProcessWindowFunction
    assert issubclass(Count, engine.Function)
    assert list(Count().process("a", None, [1, 2])) == [("a", 2)]


def test_abstract_method_of_a_subscripted_class_must_be_there():
    class Nothing(KeyedProcessFunction[str, int, int]):
        pass

    with pytest.raises(TypeError, match="process_element"):
        Nothing()


def test_subscript_names_class_and_parameters():
    assert operator.attrgetter("__origin__", "__args__")(ValueState[int]) == (ValueState, (int,))
