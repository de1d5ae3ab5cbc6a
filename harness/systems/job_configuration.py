"""Which options of the engine a family's `job` may set, and what the scenario decides instead.

Rules:

- An option that has a part in the rows or in what a restore accepts counts in every system, and in every
  check that restores a checkpoint.
- What the scenario draws, and what belongs to the process that runs a job, is refused with the reason: a
  trial that ignored it would be taken for a test of it.
- Flink's options without effect have none here either, as anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onceproof.engine.configuration import (
    ALLOW_PICKLED_STATE,
    AUTO_WATERMARK_INTERVAL,
    CHECKPOINTS_AFTER_TASKS_FINISH,
    JOB_PARAMETERS,
    OPERATOR_CHAINING,
    OPTIONS,
    RECOVERY_IGNORE_UNCLAIMED,
    RUNTIME_MODE,
    SORTED_INPUTS_MEMORY,
    ConfigOption,
    Configuration,
)
from onceproof.engine.configuration.monitor_options import reporter_option
from onceproof.engine.configuration.options import SINK_COMMITTER_RETRIES, SOURCE_ON_CHANGE
from onceproof.engine.configuration.restart_options import MAX_EQUAL_ERRORS
from onceproof.harness.model.family import Family, FamilyError, source_file

HONOURED: Final[tuple[ConfigOption[Any], ...]] = (
    ALLOW_PICKLED_STATE,
    AUTO_WATERMARK_INTERVAL,
    CHECKPOINTS_AFTER_TASKS_FINISH,
    JOB_PARAMETERS,
    MAX_EQUAL_ERRORS,
    OPERATOR_CHAINING,
    RECOVERY_IGNORE_UNCLAIMED,
    RUNTIME_MODE,
    SINK_COMMITTER_RETRIES,
    SORTED_INPUTS_MEMORY,
    SOURCE_ON_CHANGE,
)

DRAWN: Final = "the scenario draws it, so that all its values are tested"
OF_THE_PROCESS: Final = "it belongs to the process that runs the job, not to what the job does"

_DRAWN_KEYS: Final = (
    "execution.buffer-timeout.",
    "execution.checkpointing.aligned-checkpoint-timeout",
    "execution.checkpointing.incremental",
    "execution.checkpointing.interval",
    "execution.checkpointing.max-concurrent-checkpoints",
    "execution.checkpointing.min-pause",
    "execution.checkpointing.mode",
    "execution.checkpointing.num-retained",
    "execution.checkpointing.timeout",
    "execution.checkpointing.tolerable-failed-checkpoints",
    "execution.checkpointing.unaligned.",
    "parallelism.default",
    "pipeline.buffer-records",
    "pipeline.channel-buffers",
    "pipeline.max-parallelism",
    "restart-strategy.",
    "state.backend.type",
)
"""How the keys begin of what scenarios draw."""

REFUSED: Final[Mapping[str, str]] = {
    option.key: DRAWN if option.key.startswith(_DRAWN_KEYS) else OF_THE_PROCESS
    for option in OPTIONS
    if option not in HONOURED
}
"""By key, why the job of a family cannot set an option."""


def check_configuration(family: Family, configuration: Configuration, given: Configuration) -> bool:
    """Check what the job of a family has set in the configuration of its environment.

    Args:
        family: the family, for messages.
        configuration: what the job has been described with.
        given: what the system had set before.

    Returns:
        whether the job has set anything.

    Raises:
        FamilyError: an option has no place in a family; the message says why.
    """
    before, now = given.to_dict(), configuration.to_dict()
    if before == now:
        return False
    for key, value in now.items():
        if before.get(key) == value:
            continue
        reason = REFUSED.get(key, "")
        if not reason and reporter_option(key) is not None:
            reason = OF_THE_PROCESS
        if reason:
            place = source_file(family) or family.name
            raise FamilyError(
                f"{place}: job() sets the option {key!r} to {value!r}, but {reason}: set it where the job is"
                " executed, and leave it out of job()"
            )
    return True
