"""Events are collected in a list of the program, which stands for a server, and are printed as well."""

from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import SinkFunction

EVENTS = ["e1", "e2", "e3", "e4", "e5", "e6", "e7"]


class Collect(SinkFunction):
    received = []  # noqa: RUF012

    def invoke(self, event, context):
        print("got", event)
        Collect.received.append(event)


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection(EVENTS).filter(lambda event: event != "e3").add_sink(Collect()).name("collect")
    env.execute("events")
    print(Collect.received)


if __name__ == "__main__":
    main()
