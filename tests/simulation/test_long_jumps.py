"""Long jumps of the clock, with a timer that fires again every millisecond or every hour."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from onceproof.engine.functions import KeyedProcessFunction
from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family import Family
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.scenario import Fault
from onceproof.harness.systems.simulation.fault_injection import ANY_JUMP_MS, MOST_FIRINGS
from onceproof.harness.trials.faultless_runs import undisturbed
from onceproof.harness.trials.trial import try_scenario

DAY_MS = 24 * 3_600_000
LATELY = Path(__file__).parents[1] / "harness" / "lately.py"


class Repeats(KeyedProcessFunction):
    """Emits the caller, and registers a timer again whenever it fires, until it has waited for a day."""

    pause_ms = 1
    fired_at: list[int]

    def process_element(self, value: str, ctx: Any) -> Iterator[tuple[str]]:
        now = ctx.timer_service().current_processing_time()
        self.fired_at.append(now)
        ctx.timer_service().register_processing_time_timer(now + self.pause_ms)
        yield (value,)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[str]]:
        self.fired_at.append(timestamp)
        if timestamp < self.fired_at[0] + DAY_MS:
            ctx.timer_service().register_processing_time_timer(timestamp + self.pause_ms)
        yield from ()


@pytest.fixture
def family(monkeypatch: pytest.MonkeyPatch) -> Family:
    family = load_family(str(LATELY))
    source = Path(LATELY).read_text(encoding="utf-8")
    assert ".flat_map(First()," in source
    names: dict[str, Any] = {"Repeats": Repeats}
    exec(compile(source.replace(".flat_map(First(),", ".process(Repeats(),"), str(LATELY), "exec"), names)
    monkeypatch.setattr(family, "job", names["job"])
    return family


@pytest.mark.parametrize(("pause_ms", "most_ms"), [(1, max(ANY_JUMP_MS, MOST_FIRINGS)), (3_600_000, DAY_MS)])
def test_a_jump_ends_where_short_timers_would_fire_for_ever(
    family: Family, monkeypatch: pytest.MonkeyPatch, pause_ms: int, most_ms: int
) -> None:
    monkeypatch.setattr(Repeats, "pause_ms", pause_ms)
    monkeypatch.setattr(Repeats, "fired_at", [], raising=False)
    scenario = replace(
        undisturbed(generate(family, 1)), records={"calls": ((0, "ida"), (1, "ida"), (2, "ida"))}
    )
    passes = Fault("clock_ahead", "element", occurrence=3, delay=DAY_MS)
    try_scenario(family, replace(scenario, faults=(passes,)), twice=False, continued=False)
    passed_ms = max(Repeats.fired_at) - Repeats.fired_at[0]
    assert most_ms // 2 <= passed_ms <= most_ms + pause_ms + 10_000
