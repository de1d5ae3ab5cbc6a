"""Part files are moved to their place by the commit, which fails where an earlier one has moved them."""

import os
import uuid

from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import TwoPhaseCommitSinkFunction

WORDS = ["to", "be", "or", "not", "to", "be", "that", "is", "the", "question"]
FOLDER = "/tmp/words"


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
        os.rename(os.path.join(FOLDER, f".{transaction}.tmp"), os.path.join(FOLDER, f"{transaction}.txt"))

    def abort(self, transaction):
        path = os.path.join(FOLDER, f".{transaction}.tmp")
        if os.path.exists(path):
            os.remove(path)


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(1000)
    env.from_collection(WORDS).map(str.upper).add_sink(PartFiles()).name("parts")
    env.execute("words")


if __name__ == "__main__":
    main()
