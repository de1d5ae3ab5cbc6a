"""Orders go into a file by two-phase commit; a commit that comes again appends its rows again."""

import json

from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import TwoPhaseCommitSinkFunction

ORDERS = [("ada", 5), ("bob", 3), ("ada", 4), ("cy", 1), ("bob", 2), ("ada", 7), ("cy", 8), ("eve", 6)]


class Ledger(TwoPhaseCommitSinkFunction):
    def begin_transaction(self):
        return []

    def invoke_transaction(self, transaction, order, context):
        transaction.append(list(order))

    def pre_commit(self, transaction):
        pass

    def commit(self, transaction):
        with open("orders.jsonl", "a") as ledger:
            for order in transaction:
                ledger.write(json.dumps(order) + "\n")

    def abort(self, transaction):
        transaction.clear()


env = StreamExecutionEnvironment.get_execution_environment()
env.enable_checkpointing(1000)
env.from_collection(ORDERS).add_sink(Ledger()).name("ledger")
env.execute("orders")
