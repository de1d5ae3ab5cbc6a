"""The options that a runtime does not use, each with the reason.

Rules:

- An option means the same on every runtime. What stands here is the exceptions, and a test walks all options.
- An option whose promise a runtime cannot keep is refused when the job graph is built.
- An option that sets what a runtime does not have, or whose promise it keeps anyway, is accepted. One that is
  set otherwise than by default is logged with the reason when the job starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final, TypeAlias

from onceproof.engine.configuration import options
from onceproof.engine.configuration.backend_options import MAX_MEMORY_STATE_BYTES
from onceproof.engine.configuration.configuration import Configuration
from onceproof.engine.configuration.option import ConfigOption

Exceptions: TypeAlias = Mapping[str, tuple[ConfigOption[Any], ...]]
"""By reason, the options that have no effect."""


class Runtime(Enum):
    """What runs a job."""

    LOCAL = "the local runtime"
    WORKERS = "the local runtime with workers"
    SPARK = "Spark"


_NO_SPARK: Final = "execution.target is local"

REFUSED: Final[Mapping[Runtime, tuple[tuple[ConfigOption[Any], tuple[Any, ...]], ...]]] = {
    Runtime.LOCAL: (),
    Runtime.WORKERS: (),
    Runtime.SPARK: ((options.LOCAL_WORKERS, (None, 1)), (options.LEASE_TIMEOUT, (None,))),
}
"""The options that promise what a runtime does not do, each with the values that ask for nothing."""

WITHOUT_EFFECT: Final[Mapping[Runtime, Exceptions]] = {
    Runtime.LOCAL: {
        _NO_SPARK: (options.SPARK_MASTER, options.SPARK_CONF),
        "the job has no workers": (options.HEARTBEAT_INTERVAL, options.HEARTBEAT_TIMEOUT),
    },
    Runtime.WORKERS: {
        _NO_SPARK: (options.SPARK_MASTER, options.SPARK_CONF),
        "checkpoints of several processes are not kept in memory": (MAX_MEMORY_STATE_BYTES,),
    },
    Runtime.SPARK: {
        "one epoch follows the other, and nothing is in flight between them": (
            options.CHECKPOINT_MODE,
            options.CHECKPOINT_UNALIGNED,
            options.CHECKPOINT_ALIGNED_TIMEOUT,
            options.CHECKPOINT_MAX_CONCURRENT,
            options.CHECKPOINT_MIN_PAUSE,
        ),
        "an epoch sends its records when it ends": (
            options.BUFFER_TIMEOUT,
            options.BUFFER_TIMEOUT_ENABLED,
            options.CHANNEL_BUFFERS,
        ),
        "Spark has the workers, and watches them": (
            options.TASK_SLOTS,
            options.HEARTBEAT_INTERVAL,
            options.HEARTBEAT_TIMEOUT,
        ),
        "checkpoints of several processes are not kept in memory": (MAX_MEMORY_STATE_BYTES,),
    },
}


def runtime_of(configuration: Configuration) -> Runtime:
    """Return what runs a job with this configuration."""
    get = configuration.get
    if get(options.EXECUTION_TARGET) == options.SPARK_TARGET:
        return Runtime.SPARK
    workers = get(options.LOCAL_WORKERS) or get(options.TASK_SLOTS)
    return Runtime.LOCAL if workers == 1 else Runtime.WORKERS


def options_without_effect(configuration: Configuration) -> Iterator[tuple[str, str]]:
    """Yield the key and the reason of each option that is not at its default and has no effect."""
    for reason, without in WITHOUT_EFFECT[runtime_of(configuration)].items():
        for option in without:
            if configuration.get(option) != option.default:
                yield option.key, reason
