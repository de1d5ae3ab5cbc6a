"""Golden hashes of families: what a generator draws from a seed changes only with its version."""

from __future__ import annotations

import pytest

from onceproof.harness.model.family import load_family
from onceproof.harness.trials.trial import check_family
from tests.scenarios.golden import meaning_of

GOLDEN = {
    "behaviour_patterns": "1:4df086c8b51deed0",
    "flight_delays": "1:28cda3c7e351b5cb",
    "full_join": "1:3690ca347e022333",
    "interval_join": "1:f9df7c624739a439",
    "nexmark_q0": "1:4d0df329e5f13123",
    "nexmark_q1": "1:4d0df329e5f13123",
    "nexmark_q11": "1:4d0df329e5f13123",
    "nexmark_q12": "1:f26cdd9469373f41",
    "nexmark_q2": "1:f5cc73b8d40632f6",
    "nexmark_q3": "1:2afb9c03775754ed",
    "nexmark_q4": "1:cbd683e02b2f2dfd",
    "nexmark_q5": "1:4d0df329e5f13123",
    "nexmark_q7": "1:4d0df329e5f13123",
    "nexmark_q8": "1:e4819a013fb184fe",
    "periodic_page_views": "1:6f140c6129d63876",
    "rich_functions": "1:3f549ba41a246a81",
    "sessions": "1:80479f4ed301b10d",
    "sliding_word_count": "1:281b291183dcd9d9",
    "window_sum": "1:d9b4d3f75600dc2d",
    "word_bundles": "2:ded07d0645e7b78d",
}


@pytest.mark.parametrize("name", GOLDEN)
def test_five_seeds_have_their_golden_hashes(name: str) -> None:
    assert meaning_of(load_family(name)) == GOLDEN[name]


@pytest.mark.parametrize("name", GOLDEN)
def test_it_is_a_family(name: str) -> None:
    check_family(load_family(name))
