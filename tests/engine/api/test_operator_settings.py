"""Settings of an operator that do not change what it does: description, id, slot sharing group."""

from __future__ import annotations

import pytest

from onceproof.engine import InvalidJob, MemorySize, SlotSharingGroup, StreamExecutionEnvironment

HASH = "0123456789ABCDEF0123456789abcdef"


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment()


def ids(env):
    return [node.operator_id for vertex in env.get_job_graph("j").vertices for node in vertex.operators]


def test_a_description_and_a_group_change_nothing_in_the_job_graph(env):
    env.from_collection([1]).map(str).print()
    plain = env.get_job_graph("j")
    other = StreamExecutionEnvironment.get_execution_environment()
    group = SlotSharingGroup.builder("big").set_cpu_cores(2.0).build()
    stream = other.register_slot_sharing_group(group).from_collection([1]).set_description("one")
    stream.map(str).set_description("as text").slot_sharing_group("small").print().slot_sharing_group(
        group
    ).set_description("printed")
    described = other.get_job_graph("j")
    assert [vertex.name for vertex in described.vertices] == [vertex.name for vertex in plain.vertices]
    assert ids(other) == ids(env)


def test_a_uid_hash_is_the_id_of_the_operator(env):
    env.from_collection([1]).map(str).uid("mapped").set_uid_hash(HASH).print().set_uid_hash("f" * 32)
    assert ids(env)[1:] == [HASH.lower(), "f" * 32]


@pytest.mark.parametrize("wrong", ["", "abc", "g" * 32, "0" * 33])
def test_a_uid_hash_in_another_form_is_refused(env, wrong):
    with pytest.raises(InvalidJob, match="give 32 hexadecimal digits"):
        env.from_collection([1]).set_uid_hash(wrong)


def test_a_uid_hash_of_another_operator_is_refused_with_the_mend(env):
    env.from_collection([1]).set_uid_hash(HASH).map(str).set_uid_hash(HASH).name("second").print()
    with pytest.raises(InvalidJob, match=r"uid hash .* of 'second' .*: give each operator an id of its own"):
        env.get_job_graph("j")


@pytest.mark.parametrize("wrong", ["", 5, None])
def test_a_slot_sharing_group_without_a_name_is_refused(env, wrong):
    with pytest.raises(InvalidJob, match="give a name or a group"):
        env.from_collection([1]).slot_sharing_group(wrong)


def test_a_stream_has_the_execution_config_of_its_environment(env):
    env.from_collection([1]).get_execution_config().set_parallelism(3)
    assert env.get_parallelism() == 3


def test_a_slot_sharing_group_gives_back_its_resources():
    def built():
        builder = SlotSharingGroup.builder("big").set_cpu_cores(2.0).set_task_heap_memory_mb(1)
        builder.set_task_off_heap_memory_mb(2).set_managed_memory_mb(3).set_external_resource("gpu", 1)
        return builder.build()

    group = built()
    assert (group.get_name(), group.get_cpu_cores()) == ("big", 2.0)
    assert group.get_task_heap_memory() == MemorySize(1 << 20)
    assert group.get_task_off_heap_memory() == MemorySize.of_mebi_bytes(2)
    assert group.get_managed_memory() == MemorySize.of_mebi_bytes(3)
    assert group.get_external_resources() == {"gpu": 1}
    assert group == built()
    assert hash(group) == hash(built())
    assert group != SlotSharingGroup.builder("big").build()


def test_a_memory_size_is_read_in_whole_units():
    size = MemorySize((3 << 40) + 5)
    assert (size.get_bytes(), size.get_kibi_bytes()) == ((3 << 40) + 5, 3 << 30)
    assert (size.get_mebi_bytes(), size.get_gibi_bytes(), size.get_tebi_bytes()) == (3 << 20, 3 << 10, 3)
    assert MemorySize(1) < MemorySize(2) <= MemorySize(2)
    with pytest.raises(InvalidJob, match="give a whole number of bytes"):
        MemorySize(-1)
