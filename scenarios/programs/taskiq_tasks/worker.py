"""Run the tasks of the broker until killed. The command ``taskiq worker`` does not always end by SIGTERM."""

import asyncio
import logging

from taskiq.api import run_receiver_task
from tasks import broker

logging.basicConfig(level=logging.INFO)
broker.is_worker_process = True
asyncio.run(run_receiver_task(broker, run_startup=True))
