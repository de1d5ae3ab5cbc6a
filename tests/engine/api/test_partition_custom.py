"""A partitioner of the user's: who gets a record, what it may not return, and unaligned checkpoints."""

from __future__ import annotations

import pytest

from onceproof.engine import InvalidJob, Partitioner, StreamExecutionEnvironment
from onceproof.engine.runtime.job_result import JobExecutionFailed


class ByLength(Partitioner):
    def partition(self, key, num_partitions):
        return key % num_partitions


@pytest.fixture
def env():
    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.set_parallelism(3)
    return environment


def lengths(words, env):
    return [*env.from_collection(words).partition_custom(ByLength(), len).map(len).execute_and_collect()]


def test_records_of_all_partitions_come_through(env):
    assert sorted(lengths(["a", "bb", "ccc", "dddd"], env)) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (3, "chose 3 for key 'a': it must return a whole number from 0 to 2"),
        (-1, "chose -1 for key 'a'"),
        (True, "chose True for key 'a'"),
        (None, "chose None for key 'a'"),
    ],
)
def test_partition_that_does_not_exist_fails_the_job_with_the_key(env, chosen, message):
    stream = env.from_collection(["a"]).partition_custom(lambda key, partitions: chosen, lambda value: value)
    with pytest.raises(JobExecutionFailed, match=message):
        list(stream.map(str).execute_and_collect())


def test_unaligned_checkpoints_are_refused_unless_they_are_forced(env):
    checkpoints = env.get_checkpoint_config()
    env.enable_checkpointing(100)
    checkpoints.enable_unaligned_checkpoints()
    with pytest.raises(InvalidJob, match=r"partition_custom in front of 'Map'.*unaligned\.forced") as refused:
        lengths(["a"], env)
    assert "\n" not in str(refused.value)
    checkpoints.set_force_unaligned_checkpoints()
    assert lengths(["a"], env) == [1]
