"""A task of Taskiq that inserts its number into a table, over the broker of taskiq-postgres."""

import os

import asyncpg
from taskiq_pg.asyncpg import AsyncpgBroker

broker = AsyncpgBroker(os.environ["DATABASE"])


@broker.task
async def write(number: int) -> None:
    """Insert the number into the output."""
    connection = await asyncpg.connect(os.environ["DATABASE"])
    await connection.execute("INSERT INTO done VALUES ($1)", number)
    await connection.close()
