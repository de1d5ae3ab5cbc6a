"""The options of savepoints: where they are written, and what a job goes on from when it is started."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from onceproof.engine.configuration.option import ConfigOption
from onceproof.engine.configuration.parsing import one_of, parse_boolean, parse_text

NO_CLAIM: Final = "NO_CLAIM"
CLAIM: Final = "CLAIM"
LEGACY: Final = "LEGACY"

SAVEPOINT_DIRECTORY: Final[ConfigOption[str | None]] = ConfigOption(
    "execution.checkpointing.savepoint-dir",
    None,
    parse_text,
    "Where savepoints are written for which nobody names a folder; each has a folder of its own below it.",
    ("state.savepoints.dir",),
)
RECOVERY_PATH: Final[ConfigOption[str | None]] = ConfigOption(
    "execution.state-recovery.path",
    None,
    parse_text,
    "The savepoint, or the retained checkpoint, from which the job goes on.",
    ("execution.savepoint.path",),
)
RECOVERY_CLAIM_MODE: Final[ConfigOption[str]] = ConfigOption(
    "execution.state-recovery.claim-mode",
    NO_CLAIM,
    one_of({mode: mode for mode in (NO_CLAIM, CLAIM, LEGACY)}),
    "Whose it is then: NO_CLAIM leaves it to its user, CLAIM deletes it as an own checkpoint when newer ones"
    " have taken its place, LEGACY (deprecated) means NO_CLAIM here.",
    ("execution.savepoint-restore-mode",),
)
RECOVERY_IGNORE_UNCLAIMED: Final[ConfigOption[bool]] = ConfigOption(
    "execution.state-recovery.ignore-unclaimed-state",
    False,
    parse_boolean,
    "Whether state of operators that the job no longer has may be left behind.",
    ("execution.savepoint.ignore-unclaimed-state",),
)
RECOVERY_SKIP_DAMAGED: Final[ConfigOption[bool]] = ConfigOption(
    "execution.state-recovery.skip-damaged-checkpoints",
    False,
    parse_boolean,
    "Ours: whether a job that is started again may go on from an older retained checkpoint than the last,"
    " where files of that are damaged; it is told, and what was committed since may be committed again.",
)

RECOVERY_OPTIONS: Final[tuple[ConfigOption[Any], ...]] = (
    SAVEPOINT_DIRECTORY,
    RECOVERY_PATH,
    RECOVERY_CLAIM_MODE,
    RECOVERY_IGNORE_UNCLAIMED,
    RECOVERY_SKIP_DAMAGED,
)


class RecoverySettings(Struct, frozen=True):
    """What a job goes on from when it is started, if not from where it was; ``path`` as it was written."""

    path: str | None = None
    claim_mode: str = NO_CLAIM
    ignore_unclaimed_state: bool = False
    skip_damaged: bool = False
