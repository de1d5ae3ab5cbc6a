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
    "Default folder of savepoints.",
    ("state.savepoints.dir", "savepoints.state.backend.fs.dir"),
)
RECOVERY_PATH: Final[ConfigOption[str | None]] = ConfigOption(
    "execution.state-recovery.path",
    None,
    parse_text,
    "Savepoint or retained checkpoint to restore.",
    ("execution.savepoint.path",),
)
RECOVERY_CLAIM_MODE: Final[ConfigOption[str]] = ConfigOption(
    "execution.state-recovery.claim-mode",
    NO_CLAIM,
    one_of({mode: mode for mode in (NO_CLAIM, CLAIM, LEGACY)}),
    "NO_CLAIM leaves the restored checkpoint to its user; CLAIM lets the job delete it once newer ones "
    "have subsumed it; LEGACY (deprecated) means NO_CLAIM.",
    ("execution.savepoint-restore-mode",),
)
RECOVERY_IGNORE_UNCLAIMED: Final[ConfigOption[bool]] = ConfigOption(
    "execution.state-recovery.ignore-unclaimed-state",
    False,
    parse_boolean,
    "Whether a restore skips state of operators that no longer exist.",
    ("execution.savepoint.ignore-unclaimed-state",),
)
RECOVERY_SKIP_DAMAGED: Final[ConfigOption[bool]] = ConfigOption(
    "execution.state-recovery.skip-damaged-checkpoints",
    False,
    parse_boolean,
    "Ours: whether a restarted job may restore an older retained checkpoint if the last one is damaged; "
    "output committed since may be committed again.",
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
