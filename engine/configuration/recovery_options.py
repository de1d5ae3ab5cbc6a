"""The options of savepoints and of the checkpoint that a job restores when it is started."""

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
    "The default directory of savepoints; each savepoint has a folder of its own below it.",
    ("state.savepoints.dir", "savepoints.state.backend.fs.dir"),
)
RECOVERY_PATH: Final[ConfigOption[str | None]] = ConfigOption(
    "execution.state-recovery.path",
    None,
    parse_text,
    "The savepoint or retained checkpoint that the job restores.",
    ("execution.savepoint.path",),
)
RECOVERY_CLAIM_MODE: Final[ConfigOption[str]] = ConfigOption(
    "execution.state-recovery.claim-mode",
    NO_CLAIM,
    one_of({mode: mode for mode in (NO_CLAIM, CLAIM, LEGACY)}),
    "Who owns the restored checkpoint: NO_CLAIM leaves it to its user, CLAIM lets the job delete it once"
    " newer checkpoints have subsumed it, LEGACY (deprecated) means NO_CLAIM here.",
    ("execution.savepoint-restore-mode",),
)
RECOVERY_IGNORE_UNCLAIMED: Final[ConfigOption[bool]] = ConfigOption(
    "execution.state-recovery.ignore-unclaimed-state",
    False,
    parse_boolean,
    "Whether a restore may skip state of operators that the job no longer has.",
    ("execution.savepoint.ignore-unclaimed-state",),
)
RECOVERY_SKIP_DAMAGED: Final[ConfigOption[bool]] = ConfigOption(
    "execution.state-recovery.skip-damaged-checkpoints",
    False,
    parse_boolean,
    "Ours: whether a job that is started again may restore an older retained checkpoint when files of the"
    " last one are damaged; the job warns, and output committed since may be committed again.",
)

RECOVERY_OPTIONS: Final[tuple[ConfigOption[Any], ...]] = (
    SAVEPOINT_DIRECTORY,
    RECOVERY_PATH,
    RECOVERY_CLAIM_MODE,
    RECOVERY_IGNORE_UNCLAIMED,
    RECOVERY_SKIP_DAMAGED,
)


class RecoverySettings(Struct, frozen=True):
    """The checkpoint that a job restores at its first start, and how."""

    path: str | None = None
    claim_mode: str = NO_CLAIM
    ignore_unclaimed_state: bool = False
    skip_damaged: bool = False
