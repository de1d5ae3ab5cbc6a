"""Words go into part files, which the commit moves to their place unless an earlier one has moved them."""

import os
import uuid

from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import TwoPhaseCommitSinkFunction

WORDS = ["to", "be", "or", "not", "to", "be", "that", "is", "the", "question"]
FOLDER = "words"


class PartFiles(TwoPhaseCommitSinkFunction):
    def begin_transaction(self):
        os.makedirs(FOLDER, exist_ok=True)
        name = f"part-{self.subtask}-{uuid.uuid4().hex}"
        self.file = open(os.path.join(FOLDER, f".{name}.tmp"), "w")  # noqa: SIM115
        return name

    def invoke_transaction(self, transaction, word, context):
        self.file.write(word + "\n")

    def pre_commit(self, transaction):
        self.file.close()

    def commit(self, transaction):
        hidden = os.path.join(FOLDER, f".{transaction}.tmp")
        if os.path.exists(hidden):
            os.replace(hidden, os.path.join(FOLDER, f"{transaction}.txt"))

    def abort(self, transaction):
        path = os.path.join(FOLDER, f".{transaction}.tmp")
        if os.path.exists(path):
            os.remove(path)


env = StreamExecutionEnvironment.get_execution_environment()
env.enable_checkpointing(1000)
env.from_collection(WORDS).map(str.upper).add_sink(PartFiles()).name("parts")
env.execute("words")
