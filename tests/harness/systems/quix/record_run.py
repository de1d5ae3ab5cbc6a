"""Records what is seen of a run on Quix: ``... -m tests.harness.systems.quix.record_run FAMILY SEED``.

It installs Quix Streams if need be. It writes the events of the workers and what was in the topics beside
this file; tests build the history from it again, and judge it, where neither Quix Streams nor a broker is.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from onceproof.harness.generation.generator import generate
from onceproof.harness.model.family_places import load_family
from onceproof.harness.model.mutants.patching import replaced
from onceproof.harness.model.scenario import to_json
from onceproof.harness.systems.quix.history import QuixHistory
from onceproof.harness.systems.quix.system import QuixSystem

HERE = Path(__file__).parent


def main(family_name: str, seed: int) -> None:
    """Run the scenario of a seed, and write what was seen."""
    family = load_family(family_name)
    kept: dict[str, Any] = {}

    class Recording(QuixHistory):
        """Keeps what it is given."""

        def add_process_log(self, events: list[dict[str, Any]]) -> None:
            kept["events"] = msgspec.to_builtins(events)
            super().add_process_log(events)
            kept["seen"] = msgspec.to_builtins(self._seen)

    with (
        closing(QuixSystem()) as system,
        replaced(sys.modules[QuixSystem.__module__], "QuixHistory", Recording),
    ):
        scenario = system.prepared(generate(family, seed))
        system.run(family, scenario)
    kept["scenario"] = json.loads(to_json(scenario))
    recorded = HERE / f"recorded_{family_name}.json"
    recorded.write_text(f"{json.dumps(kept, separators=(',', ':'))}\n", encoding="utf-8")
    print(recorded, len(kept["events"]), "events")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
