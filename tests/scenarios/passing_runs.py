"""Runs the first seeds of a family, which have to pass."""

from __future__ import annotations

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
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


def rows_after_a_rescale(name: str, seeds: int) -> list[Row]:
    """Return the rows that become visible after a rescale in the first scenario that has any, or none.

    Which seeds draw a rescale changes with the generator, so one is searched for. Each run up to it has to
    pass.
    """
    family = load_family(name)
    for seed in range(seeds):
        scenario = generate(family, seed)
        trial = try_scenario(family, scenario)
        assert trial.verdict.violations == (), seed
        rescaled = False
        rows: list[Row] = []
        for _, kind, _, payload in trial.history.events:
            if kind == "attempt_started":
                rescaled = rescaled or payload["parallelism"] != scenario.parallelism
            elif kind == "transaction_visible" and rescaled:
                rows.extend(payload["rows"])
        if rows:
            return rows
    return []
