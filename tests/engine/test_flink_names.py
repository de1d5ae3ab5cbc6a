"""Every public name of PyFlink 1.12 to 2.3 is there, or its error says why not, and what to use instead.

The names were read from the wheels of these versions (`pyflink_surface.py`). The newest wheel is compared
with them where the machine has it.
"""

from __future__ import annotations

import subprocess
import sys
from operator import attrgetter

import pytest

from onceproof import engine
from onceproof.engine.flink_names import flink_names, missing_member, why_missing
from tests.engine.pyflink_replacements import INSTEAD
from tests.engine.pyflink_surface import (
    ANSWERS,
    answers,
    classes_of_both,
    members_of,
    ours,
    public_names,
    surface,
    written,
)
from tests.engine.pyflink_wheel import members, public_classes, public_functions


def test_answers_are_those_that_the_recorded_names_give() -> None:
    assert ANSWERS.read_text(encoding="utf-8") == written(answers()), (
        "run `python -m tests.engine.pyflink_surface write`"
    )


def test_names_of_thirteen_versions_are_recorded() -> None:
    found = [version.rpartition(".")[0] for version in surface().versions]
    assert found == [*(f"1.{minor}" for minor in range(12, 21)), "2.0", "2.1", "2.2", "2.3"]
    assert len(public_names()) > 600


def test_every_name_is_there_or_answers_with_a_reason() -> None:
    for name in public_names():
        if ours(name) is None:
            with pytest.raises(AttributeError, match=f"{name} of PyFlink is missing here: .*; "):
                getattr(engine, name)


def test_every_member_is_there_or_answers_with_a_reason() -> None:
    assert sum(len(members_of(name)) for name in classes_of_both()) > 900
    for name in classes_of_both():
        for member in members_of(name):
            cls = ours(name)
            if not hasattr(cls, member):
                assert "is missing here: " in missing_member(cls, member, ""), f"{name}.{member}"
                assert hasattr(cls, "__getattr__"), f"objects of {name} do not answer: see engine/__init__.py"


def test_every_module_has_names_or_answers_with_a_reason() -> None:
    for module in surface().modules:
        assert (module in flink_names().modules) != (why_missing(module) is not None), module


def test_replacements_are_named_for_missing_names_only() -> None:
    missing = flink_names().reasons
    assert [name for name in INSTEAD if name not in missing] == []


def test_replacements_that_name_a_class_of_the_engine_name_one_that_is_there() -> None:
    named = {word for text in INSTEAD.values() for word in text.replace("(", " ").replace(",", " ").split()}
    ours_named = [word for word in named if word[0].isupper() and word.partition(".")[0] in engine.__all__]
    assert len(ours_named) > 20
    for word in ours_named:
        attrgetter(word.rstrip(")"))(engine)


def test_newest_wheel_has_no_name_that_is_not_recorded() -> None:
    recorded = public_names()
    assert [name for name in public_functions() if name not in recorded] == []
    for name in public_classes():
        outer = name.partition(".")[0]
        assert outer in recorded, name
        if outer == name:
            assert members(name).keys() <= members_of(name), name


def test_objects_and_classes_say_why_they_lack_a_member() -> None:
    env = engine.StreamExecutionEnvironment.get_execution_environment()
    tables = engine.StreamTableEnvironment.create(env)
    stream = env.from_collection([1])
    for place, name in [
        (env, "get_execution_plan"),
        (env.get_checkpoint_config(), "get_checkpoint_storage"),
        (env.get_config(), "enable_force_kryo"),
        (env.get_configuration(), "get_bytearray"),
        (tables, "execute_sql"),
        (stream, "cache"),
        (stream.key_by(lambda value: value), "cache"),
        (engine.Types, "INSTANT"),
        (engine.DataTypes, "MULTISET"),
        (engine.WatermarkStrategy.no_watermarks(), "with_watermark_alignment"),
        (engine.Types.STRING(), "get_java_type_info"),
    ]:
        with pytest.raises(AttributeError, match=rf"\.{name} of PyFlink is missing here: .*; ") as raised:
            getattr(place, name)
        assert raised.value.name == name


@pytest.mark.parametrize(
    ("place", "name", "message"),
    [
        (engine, "NoSuchName", "module 'onceproof.engine' has no attribute 'NoSuchName'"),
        (engine.Configuration(), "no_such_name", "'Configuration' object has no attribute 'no_such_name'"),
        (engine.Types, "NO_SUCH_NAME", "type object 'Types' has no attribute 'NO_SUCH_NAME'"),
        (engine.Row(a=1), "b", "the row has no field 'b': its names are a"),
    ],
)
def test_names_that_pyflink_never_had_keep_the_usual_message(place: object, name: str, message: str) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(place, name)
    assert str(raised.value) == message
    assert not hasattr(place, name)


def test_import_of_a_missing_name_says_why() -> None:
    with pytest.raises(ImportError, match="EnvironmentSettings of PyFlink is missing here"):
        from onceproof.engine import EnvironmentSettings  # type: ignore[attr-defined] # noqa: F401
    with pytest.raises(ImportError, match="cannot import name 'NoSuchName'"):
        from onceproof.engine import NoSuchName  # type: ignore[attr-defined] # noqa: F401


def test_list_of_names_is_not_read_before_a_name_is_missing() -> None:
    program = (
        "from onceproof import engine\n"
        "from onceproof.engine.flink_names import flink_names\n"
        "env = engine.StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1]).map(str).execute_and_collect().close()\n"
        "assert flink_names.cache_info().currsize == 0\n"
        "assert not hasattr(engine, 'EnvironmentSettings')\n"
        "assert flink_names.cache_info().currsize == 1\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
