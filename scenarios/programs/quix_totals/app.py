"""Running totals by key in Quix Streams, from a topic of Kafka to another one.

    python app.py BROKER INPUT OUTPUT exactly-once|at-least-once

A start takes over from a killed one at once: it has the same name in its consumer group, and its transactions
have the same id.
"""

import sys
from typing import Any

from quixstreams import Application

broker, given, written, guarantee = sys.argv[1:]


def add(record: dict[str, Any], state: Any) -> dict[str, Any]:
    """Return the new total of the record's key, which is kept in the state."""
    total = state.get("total", 0) + record["amount"]
    state.set("total", total)
    return {"key": record["key"], "total": total}


app = Application(
    broker_address=broker,
    consumer_group=f"{given}-totals",
    auto_offset_reset="earliest",
    processing_guarantee=guarantee,
    commit_interval=0.2,
    consumer_poll_timeout=0.05,
    consumer_extra_config={"group.instance.id": "totals"},
    producer_extra_config={"transactional.id": f"{given}-totals"} if guarantee == "exactly-once" else {},
)
totals = app.dataframe(app.topic(given, key_deserializer="str")).apply(add, stateful=True)
totals.to_topic(app.topic(written))
app.run()
