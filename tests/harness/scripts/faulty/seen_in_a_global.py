"""Events that come again are dropped; those seen are kept in a global set."""

from pyflink.datastream import StreamExecutionEnvironment

EVENTS = ["e1", "e2", "e1", "e3", "e2", "e4", "e1", "e5", "e3", "e6"]
seen = set()


def is_new(event):
    if event in seen:
        return False
    seen.add(event)
    return True


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection(EVENTS).filter(is_new).print()
    env.execute("new events")


if __name__ == "__main__":
    main()
