"""Golden hashes of families: what a generator draws from a seed changes only with its version."""

from __future__ import annotations

import pytest

from onceproof.harness.model.family_places import load_family
from onceproof.harness.trials.trial import check_family
from tests.scenarios.golden import meaning_of

GOLDEN = {
    "async_lookups": "2:330072a504b38315",
    "behaviour_patterns": "1:4df086c8b51deed0",
    "bonuses": "2:fd249d7bf534ca40",
    "bursts": "2:2d1b9e8a604efedd",
    "clock_windows": "1:15b6e3b7c0a63b0f",
    "closing_sums": "1:d740febc56bcc584",
    "early_totals": "2:504c06b73da030a1",
    "even_sums": "1:d8a10a61c024a933",
    "expiring_state": "2:2cb4cea366def1e9",
    "final_totals": "1:d740febc56bcc584",
    "flight_delays": "2:3e38466ee6ea2294",
    "full_join": "1:3690ca347e022333",
    "grown_accounts": "2:5a132dded5745cf4",
    "interval_join": "5:fa7e8544783c6d20",
    "kafka_exactly_once_window": "1:8f677114cc10dfdd",
    "kafka_rows": "1:1b72a312df621b34",
    "kafka_to_kafka": "1:1b72a312df621b34",
    "kafka_to_postgres": "1:1b72a312df621b34",
    "last_words": "1:2d5f74a711876f82",
    "late_readings": "2:3fd538c64cc3f0a7",
    "mixed_keys": "1:1acb827170244d02",
    "moving_means": "1:d740febc56bcc584",
    "nexmark_q0": "2:48097b59bd3921d9",
    "nexmark_q1": "2:48097b59bd3921d9",
    "nexmark_q11": "2:48097b59bd3921d9",
    "nexmark_q12": "2:e135223ab031f6eb",
    "nexmark_q2": "2:bd4ed0f0a4927d8f",
    "nexmark_q3": "2:6311709928206dd5",
    "nexmark_q4": "2:0d4828b6c94ae0a2",
    "nexmark_q5": "2:48097b59bd3921d9",
    "nexmark_q7": "2:48097b59bd3921d9",
    "nexmark_q8": "2:0308157dc2fcb4d9",
    "objects_parquet": "1:90addc513c50eac6",
    "objects_rolling": "1:90addc513c50eac6",
    "order_lines": "1:689d45d8f527730d",
    "ordered_payments": "2:727394fbc79ede54",
    "orders_with_lookup": "1:9a4ac465c7dd95d4",
    "parcels": "1:ab6c7abf1ad4be7e",
    "pausing_sensors": "3:201e37b7337e2f9b",
    "periodic_page_views": "3:130a0ef5624c5641",
    "postgres_rows": "1:1b72a312df621b34",
    "postgres_upsert": "1:1b72a312df621b34",
    "random_job": "12:2c6a3f703d77855b",
    "raw_numbers": "1:a3352552cb770a6e",
    "reused_lists": "1:d740febc56bcc584",
    "rich_functions": "1:3f549ba41a246a81",
    "rolling_readings": "1:80c061b524c560cb",
    "sessions": "3:f186c6343db8b9cd",
    "site_totals": "1:f6e400f2c1ea47a8",
    "sliding_word_count": "4:be4a87d018c30966",
    "steady_batches": "1:7560acab1b5c40cf",
    "top_speed": "1:1eb321cb2512cbc4",
    "visits": "1:a922e9b1c5031056",
    "visits_and_purchases": "1:2c367ddd2b548aff",
    "window_sum": "3:244822128b3dbf46",
    "word_bundles": "2:ded07d0645e7b78d",
}


@pytest.mark.parametrize("name", GOLDEN)
def test_five_seeds_have_their_golden_hashes(name: str) -> None:
    assert meaning_of(load_family(name)) == GOLDEN[name]


@pytest.mark.parametrize("name", GOLDEN)
def test_it_is_a_family(name: str) -> None:
    check_family(load_family(name))
