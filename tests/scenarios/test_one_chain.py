"""A job that is one chain from source to sink: its snapshot is one file for all its operators."""

from __future__ import annotations

from pathlib import Path

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.history import CHECKPOINT_COMPLETED
from onceproof.harness.trials.trial import check_family, try_scenario

FAMILY = load_family(str(Path(__file__).with_name("one_chain.py")))
SEEDS = 150


def test_one_chain_survives_faults_and_lists_each_transaction_once() -> None:
    check_family(FAMILY)
    listed = 0
    for seed in range(SEEDS):
        trial = try_scenario(FAMILY, generate(FAMILY, seed), twice=False)
        assert trial.verdict.violations == (), seed
        for event in trial.history.events:
            if event[1] == CHECKPOINT_COMPLETED:
                transactions = event[3]["transactions"]
                assert len(set(transactions)) == len(transactions), seed
                listed += len(transactions)
    assert listed
