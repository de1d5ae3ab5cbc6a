"""Restart strategies: drives onceproof.engine.job.restart_strategies."""

from typing import Any

from onceproof.engine.configuration import ExponentialDelayRestarts, FailureRateRestarts, FixedDelayRestarts
from onceproof.engine.job.restart_strategies import RestartStrategy, restart_strategy


def decisions(strategy: RestartStrategy, events: list[list[Any]]) -> dict[str, Any]:
    """Return the strategy's answer to every event that is a question."""
    now = 0
    trace: list[dict[str, Any]] = []
    for event in events:
        if event[0] == "advance":
            now += event[1]
        elif event[0] == "query":
            trace.append({"at": now, "can_restart": strategy.can_restart(now)})
        elif event[0] == "fail":
            counted = strategy.notify_failure(now)
            trace.append(
                {
                    "at": now,
                    "counted_as_new_attempt": counted,
                    "can_restart": strategy.can_restart(now),
                    "backoff_ms": strategy.backoff_ms(now),
                }
            )
        else:
            raise ValueError(f"unknown event {event}")
    return {"trace": trace}


def no_chance() -> Any:
    """Random delays cannot be compared: vectors have no jitter, or too little to be drawn."""
    return lambda: 0.5


def fixed_delay(given: dict[str, Any]) -> dict[str, Any]:
    settings = FixedDelayRestarts(**given["config"])
    return decisions(restart_strategy(settings, no_chance), given["events"])


def failure_rate(given: dict[str, Any]) -> dict[str, Any]:
    settings = FailureRateRestarts(**given["config"])
    return decisions(restart_strategy(settings, no_chance), given["events"])


def exponential_delay(given: dict[str, Any]) -> dict[str, Any]:
    config = dict(given["config"])
    config["backoff_multiplier"] = config.pop("multiplier")
    config["jitter_factor"] = config.pop("jitter")
    return decisions(restart_strategy(ExponentialDelayRestarts(**config), no_chance), given["events"])


ADAPTERS = {
    "restart.fixed_delay": fixed_delay,
    "restart.failure_rate": failure_rate,
    "restart.exponential_delay": exponential_delay,
}
