"""A transaction is a list in memory: nothing is prepared, so no restore can commit it."""

from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import TwoPhaseCommitSinkFunction

PAYMENTS = [("p1", 10), ("p2", 25), ("p3", 5), ("p4", 40), ("p5", 15), ("p6", 30)]


class Bank(TwoPhaseCommitSinkFunction):
    def __init__(self):
        super().__init__()
        self.rows = {}

    def begin_transaction(self):
        name = f"{self.subtask}-{self.attempt}-{self.epoch}"
        self.rows[name] = []
        return name

    def invoke_transaction(self, transaction, payment, context):
        self.rows[transaction].append(payment)

    def pre_commit(self, transaction):
        pass

    def commit(self, transaction):
        with open("bank.csv", "a") as bank:
            for number, amount in self.rows.pop(transaction, []):
                bank.write(f"{number},{amount}\n")

    def abort(self, transaction):
        self.rows.pop(transaction, None)


env = StreamExecutionEnvironment.get_execution_environment()
env.enable_checkpointing(1000)
env.from_collection(PAYMENTS).add_sink(Bank()).name("bank")
env.execute("payments")
