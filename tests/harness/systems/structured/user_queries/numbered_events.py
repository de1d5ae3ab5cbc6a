"""The running number of each visitor's events, with transformWithState."""

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StatefulProcessor


class Numbered(StatefulProcessor):
    def init(self, handle):
        self.seen = handle.getValueState("seen", "seen BIGINT")

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803 (the names are Spark's)
        current = self.seen.get()
        seen = current[0] if current else 0
        for _ in rows:
            seen += 1
            yield Row(visitor=key[0], number=seen)
        self.seen.update((seen,))

    def close(self):
        pass


def numbered(events: DataFrame) -> DataFrame:
    return events.groupBy("visitor").transformWithState(
        Numbered(), "visitor STRING, number BIGINT", "Append", "None"
    )
