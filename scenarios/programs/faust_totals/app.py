"""Running totals by key in Faust with exactly_once, between topics: app.py BROKER INPUT OUTPUT FOLDER."""

import sys

import faust

broker, given, written, folder = sys.argv[1:5]
app = faust.App(
    f"{given}-totals",
    broker=f"kafka://{broker}",
    datadir=folder,
    store="memory://",
    processing_guarantee="exactly_once",
    topic_partitions=1,
    topic_replication_factor=1,
    topic_disable_leader=True,
    web_enabled=False,
    broker_commit_interval=0.2,
    broker_session_timeout=6.0,
    broker_heartbeat_interval=1.0,
    consumer_auto_offset_reset="earliest",
    stream_wait_empty=False,
)
records = app.topic(given, value_serializer="json", key_serializer="raw", partitions=1)
rows = app.topic(written, value_serializer="json", key_serializer="raw", partitions=1)
totals = app.Table("totals", default=int, partitions=1)


@app.agent(records)
async def add(stream):
    """Add each amount to the total of its key, and send the new total."""
    async for record in stream:
        totals[record["key"]] += record["amount"]
        await rows.send(value={"key": record["key"], "total": totals[record["key"]]})


sys.argv = ["app", "worker", "-l", "info", "--without-web"]
app.main()
