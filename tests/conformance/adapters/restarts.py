"""Restart strategies: drives engine.job.restart."""

from typing import Any

from engine.job.restart import FixedDelayRestart, RestartStrategy


def decisions(strategy: RestartStrategy, events: list[list[Any]]) -> dict[str, Any]:
    """Ask the strategy at every event that is a question."""
    now = 0
    trace: list[dict[str, Any]] = []
    for event in events:
        if event[0] == "advance":
            now += event[1]
        elif event[0] == "query":
            trace.append({"at": now, "can_restart": strategy.can_restart()})
        elif event[0] == "fail":
            counted = strategy.notify_failure(now)
            trace.append(
                {
                    "at": now,
                    "counted_as_new_attempt": counted,
                    "can_restart": strategy.can_restart(),
                    "backoff_ms": strategy.backoff_ms(),
                }
            )
        else:
            raise ValueError(f"unknown event {event}")
    return {"trace": trace}


def fixed_delay(given: dict[str, Any]) -> dict[str, Any]:
    config = given["config"]
    return decisions(FixedDelayRestart(config["attempts"], config["delay_ms"]), given["events"])


ADAPTERS = {"restart.fixed_delay": fixed_delay}
