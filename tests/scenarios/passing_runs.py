"""Runs the first seeds of a family, which have to pass."""

from __future__ import annotations

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family import load_family
from onceproof.harness.model.history import Row
from onceproof.harness.trials.trial import try_scenario


def passing_runs(name: str, seeds: int) -> tuple[list[list[Row]], int]:
    """Return the rows of each visible transaction that has any, and how often a job was rescaled."""
    family = load_family(name)
    transactions = []
    rescales = 0
    for seed in range(seeds):
        scenario = generate(family, seed)
        trial = try_scenario(family, scenario)
        assert trial.verdict.violations == (), seed
        for _, kind, _, payload in trial.history.events:
            if kind == "transaction_visible" and payload["rows"]:
                transactions.append(payload["rows"])
            elif kind == "attempt_started":
                rescales += payload["parallelism"] != scenario.parallelism
    return transactions, rescales
