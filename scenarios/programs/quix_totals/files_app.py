"""Running totals by key in Quix Streams, from a topic of Kafka into files.

    python files_app.py BROKER INPUT FOLDER

The application asks for exactly once; its sink is the library's own sink of local files, which appends.
"""

import json
import os
import sys
from typing import Any

from quixstreams import Application
from quixstreams.sinks.community.file.formats.json import JSONFormat
from quixstreams.sinks.community.file.local import LocalFileSink

broker, given, folder = sys.argv[1:]


def add(record: dict[str, Any], state: Any) -> dict[str, Any]:
    """Return the new total of the record's key, which is kept in the state."""
    total = state.get("total", 0) + record["amount"]
    state.set("total", total)
    return {"key": record["key"], "total": total}


app = Application(
    broker_address=broker,
    consumer_group=f"{given}-totals",
    auto_offset_reset="earliest",
    processing_guarantee="exactly-once",
    commit_interval=0.2,
    consumer_poll_timeout=0.05,
    consumer_extra_config={"group.instance.id": "totals"},
    producer_extra_config={"transactional.id": f"{given}-totals"},
)
# The sink takes names of folders without a hyphen only.
os.chdir(folder)
# The writer of lines tries the function with an empty object first.
lines = JSONFormat(dumps=lambda message: json.dumps(message.get("_value")))
totals = app.dataframe(app.topic(given, key_deserializer="str")).apply(add, stateful=True)
totals.sink(LocalFileSink(append=True, format=lines))
app.run()
