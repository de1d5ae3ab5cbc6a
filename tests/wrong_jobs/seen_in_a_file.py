"""Retries are left out by a file that the function appends to: the file does not go back with the input."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Any

from onceproof.engine import KeyedProcessFunction, RuntimeContext, Types
from tests.wrong_jobs.family import ROW, WrongJob, deduplicated

NAMED = "the file 'wrong-jobs-seen.txt'"


PATH = os.path.join(tempfile.gettempdir(), "wrong-jobs-seen.txt")


class Dedup(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        try:
            with open(PATH) as file:
                self.seen = {int(line) for line in file}
        except FileNotFoundError:
            self.seen = set()

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        number, customer, cents = value
        if number not in self.seen:
            self.seen.add(number)
            with open(PATH, "a") as file:  # wrong
                file.write(f"{number}\n")
            yield customer, number, cents


def build(orders: Any) -> Any:
    return orders.key_by(lambda order: order[0], Types.LONG()).process(Dedup(), ROW)


family = WrongJob("seen_in_a_file", build, deduplicated)
