"""The state of a hunt in its folder: what a stopped hunt goes on from.

The rules this module lives by:

- ``hunt.json`` is one consistent moment of a hunt: how many scenarios of each family have ended, what they
  met, and what failed. It is replaced whole, so a hunt that is killed goes on from the last moment, and runs
  again what had ended since.
- It is checked when it is read. One that is damaged, newer, or of another generator is refused in a line with
  its path; nothing of it is executed or taken for a path.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec

from onceproof.engine.outside_files import read_at_most
from onceproof.harness.checkers import Signature
from onceproof.harness.checkers.outcome import Outcome
from onceproof.harness.checkers.protocol_states import STATES_VERSION
from onceproof.harness.generation.generator import GENERATION
from onceproof.harness.trials.family_turns import Met
from onceproof.harness.trials.output_files import replace_file
from onceproof.harness.trials.tally import FamilyTally, Group, Tally
from onceproof.reports.model import Failure

FORMAT_VERSION: Final = 1
STATE_FILE: Final = "hunt.json"
MOST_BYTES: Final = 1 << 28

Count = Annotated[int, msgspec.Meta(ge=0)]
Counts = dict[str, Count]


class HuntError(Exception):
    """The folder of a hunt cannot be used; the message is one line with the path and the mend."""


class FamilyState(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a hunt knows of one family."""

    name: str
    usual: Count
    """How many of its usual scenarios have ended; the next one has this number."""
    unaimed: Count
    """The same of those without patterns."""
    since_new: Count
    situations: list[str]
    faults: list[str]
    states: list[Count]
    scenarios: Count
    failed: Count
    checked_twice: Count
    continued: Count
    at_least_once: Count
    milliseconds: float
    broken: Counts
    timers_before_end: Count
    timers_at_end: Count
    kills: Count
    not_applicable: Count
    in_situation: Counts
    notes: Counts = {}
    watched: Counts = {}
    happened: Counts = {}
    seeds: list[int]
    """The first of its scenarios."""


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One way in which a family failed."""

    first: Outcome
    count: Count
    broken: Counts
    failure: Failure
    """As the page shows it, shrunk and explained."""
    identity: tuple[str, ...] = ()
    """What makes findings one bug (``failures.py``); empty in states of earlier versions."""


class HuntState(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One moment of a hunt."""

    format_version: int = FORMAT_VERSION
    states_version: int = STATES_VERSION
    generation: int = GENERATION
    onceproof: str
    """The version that ran last."""
    names: list[str]
    """The families as they were named: names or paths."""
    seed: int
    started: str
    seconds: float
    """For how long the hunt has gone on, over all its sessions."""
    sessions: Count
    families: list[FamilyState]
    fired: Counts
    planned: Counts
    points: Counts
    rescales: Count
    findings: list[Finding]


class _Versions(msgspec.Struct):
    format_version: int = 0
    states_version: int = 0
    generation: int = 0


_versions: Final = msgspec.json.Decoder(_Versions)
_state: Final = msgspec.json.Decoder(HuntState)


def read_state(folder: Path) -> HuntState | None:
    """Return the state of the hunt in a folder; None where there is none.

    Raises:
        HuntError: it cannot be read, or belongs to another version.
    """
    path = folder / STATE_FILE
    another = "give --out another folder"
    try:
        text = read_at_most(path, MOST_BYTES)
        versions = _versions.decode(text)
        if versions.format_version > FORMAT_VERSION:
            raise HuntError(
                f"{path}: format version {versions.format_version} is newer than {FORMAT_VERSION}, the newest"
                f" that this onceproof reads: use the one that wrote it, or {another}"
            )
        if (versions.states_version, versions.generation) != (STATES_VERSION, GENERATION):
            raise HuntError(
                f"{path}: a hunt of generation {versions.generation} of scenarios, and this onceproof draws"
                f" generation {GENERATION}: {another}"
            )
        state = _state.decode(text)
        if any(each.first.signature is None for each in state.findings):
            raise msgspec.ValidationError("a finding has no signature")
        return state
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HuntError(f"{path}: cannot be read: {error.strerror or error}: {another}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HuntError(f"{path}: no state of a hunt: {error}: delete it, or {another}") from None


def write_state(folder: Path, state: HuntState) -> None:
    """Replace the state of a hunt. Raises OutputUnwritable."""
    replace_file(folder / STATE_FILE, msgspec.json.encode(state))


def family_state(
    name: str, tally: FamilyTally, met: Met, usual: int, unaimed: int, seeds: Sequence[int]
) -> FamilyState:
    """Return what is stored of a family."""
    return FamilyState(
        name=name,
        usual=usual,
        unaimed=unaimed,
        since_new=met.since_new,
        situations=sorted(met.situations),
        faults=sorted(met.faults),
        states=sorted(met.states),
        scenarios=tally.scenarios,
        failed=tally.failed,
        checked_twice=tally.checked_twice,
        continued=tally.continued,
        at_least_once=tally.at_least_once,
        milliseconds=round(tally.milliseconds, 3),
        broken=dict(tally.broken),
        timers_before_end=tally.timers_before_end,
        timers_at_end=tally.timers_at_end,
        kills=tally.kills,
        not_applicable=tally.not_applicable,
        in_situation=dict(tally.situations),
        notes=dict(tally.notes),
        watched=dict(tally.watched),
        happened=dict(tally.happened),
        seeds=list(seeds),
    )


def met_of(state: FamilyState) -> Met:
    """Return what a stored family has met."""
    return Met(state.scenarios, state.since_new, set(state.situations), set(state.faults), set(state.states))


def tally_of(state: HuntState) -> Tally:
    """Return the tally of a stored hunt, with its failures."""
    tally = Tally(
        scenarios=sum(each.scenarios for each in state.families),
        failed=sum(each.failed for each in state.families),
        fired=Counter(state.fired),
        planned=Counter(state.planned),
        points=Counter(state.points),
        kills=sum(each.kills for each in state.families),
        not_applicable=sum(each.not_applicable for each in state.families),
        rescales=state.rescales,
    )
    for each in state.families:
        if each.scenarios:
            tally.families[each.name] = _family_tally(each)
    for finding in state.findings:
        signature = finding.first.signature
        assert signature is not None, "a state without signatures is refused"
        group = Group(finding.first, signature, count=finding.count, broken=Counter(finding.broken))
        tally.groups[finding.first.family, signature] = group
    return tally


def _family_tally(state: FamilyState) -> FamilyTally:
    return FamilyTally(
        scenarios=state.scenarios,
        failed=state.failed,
        checked_twice=state.checked_twice,
        continued=state.continued,
        at_least_once=state.at_least_once,
        milliseconds=state.milliseconds,
        broken=Counter(state.broken),
        timers_before_end=state.timers_before_end,
        timers_at_end=state.timers_at_end,
        kills=state.kills,
        not_applicable=state.not_applicable,
        situations=Counter(state.in_situation),
        notes=Counter(state.notes),
        watched=Counter(state.watched),
        happened=Counter(state.happened),
    )


def key_of(finding: Finding) -> tuple[str, Signature]:
    """Return the family and the signature of a finding."""
    assert finding.first.signature is not None
    return finding.first.family, finding.first.signature
