"""A task of Celery that writes its number, acknowledged only when it has run (``acks_late``).

The environment has the broker's address, the queue, the options of the transport as JSON, and where numbers
go: a folder, or HOST:PORT/TOPIC of Kafka.
"""

import json
import os
import time
from pathlib import Path

from celery import Celery

app = Celery("tasks", broker=os.environ["BROKER"])
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options=json.loads(os.environ.get("OPTIONS", "{}")),
    task_acks_late=True,
    task_default_queue=os.environ.get("QUEUE", "celery"),
    task_reject_on_worker_lost=True,
    worker_enable_remote_control=False,
)


@app.task
def write(number: int) -> None:
    """Work for a moment, then write the number."""
    time.sleep(0.05)
    row = json.dumps({"id": number})
    output = os.environ["OUTPUT"]
    if output.startswith("/"):
        with (Path(output) / "done.jsonl").open("a", encoding="utf-8") as file:
            file.write(f"{row}\n")
        return
    from confluent_kafka import Producer

    server, _, topic = output.partition("/")
    producer = Producer({"bootstrap.servers": server})
    producer.produce(topic, row)
    producer.flush()
