"""How barriers travel, by kind of snapshot and settings: drives onceproof.engine.configuration.alignment."""

from typing import Any

from onceproof.engine.configuration import checkpoint_options


def options(given: dict[str, Any]) -> dict[str, Any]:
    results = []
    for case in given["cases"]:
        options = checkpoint_options(
            is_savepoint=case["type"] == "savepoint",
            exactly_once=case["exactly_once"],
            unaligned=case["unaligned"],
            aligned_timeout_ms=case["aligned_timeout_ms"],
        )
        results.append(
            {
                "alignment": options.alignment.value,
                "needs_alignment": options.needs_alignment,
                "needs_channel_state": options.needs_channel_state,
                "timeoutable": options.is_timeoutable,
                "on_edge_without_unaligned_support": (
                    options.on_edge_without_unaligned_support().alignment.value
                ),
            }
        )
    return {"results": results}


ADAPTERS = {"checkpoint.options": options}
