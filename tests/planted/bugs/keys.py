"""Mutants of keys: what stands for a key in state is not what tells it apart from others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onceproof.engine.types.scalars import DynamicType
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.mutants.registry import Reached, mutant


@mutant(
    id="equal-numbers-are-one-key",
    breaks="exactly_once",
    summary="keys that a dict finds equal are one: 1, 1.0 and True",
    families=("mixed_keys",),
)
def equal_numbers_are_one_key(reached: Reached) -> Iterator[None]:
    """Keys of no declared type stand for themselves; NaN, unequal to itself, is never found again."""
    sound = DynamicType.identify

    def itself(self: DynamicType, key: Any) -> Any:
        if sound(self, key) is not key:
            reached()
        return key

    with replaced(DynamicType, "identify", itself):
        yield


@mutant(
    id="negative-zero-is-zero",
    breaks="exactly_once",
    summary="keys that are zero are one: 0.0 and -0.0",
    families=("mixed_keys",),
)
def negative_zero_is_zero(reached: Reached) -> Iterator[None]:
    """The sum of the one goes on from that of the other."""
    sound = DynamicType.identify

    def without_sign(self: DynamicType, key: Any) -> Any:
        if type(key) is tuple and any(type(part) is float and repr(part) == "-0.0" for part in key):
            reached()
            key = tuple([0.0 if type(part) is float and not part else part for part in key])
        return sound(self, key)

    with replaced(DynamicType, "identify", without_sign):
        yield
