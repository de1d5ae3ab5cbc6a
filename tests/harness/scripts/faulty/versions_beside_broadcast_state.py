"""Rules are kept in broadcast state; their version numbers only in an attribute beside it."""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import BroadcastProcessFunction
from pyflink.datastream.state import MapStateDescriptor

RULES = MapStateDescriptor("rules", Types.STRING(), Types.STRING())


class Versions(BroadcastProcessFunction):
    def __init__(self):
        self.versions = {}

    def process_element(self, event, ctx):
        return []

    def process_broadcast_element(self, rule, ctx):
        name, text = rule
        ctx.get_broadcast_state(RULES).put(name, text)
        self.versions[name] = self.versions.get(name, 0) + 1
        yield name, self.versions[name], text


env = StreamExecutionEnvironment.get_execution_environment()
events = env.from_collection(["login", "pay", "logout"], Types.STRING())
rules = env.from_collection([("limit", "100"), ("limit", "50"), ("country", "de"), ("limit", "70")] * 3)
events.connect(rules.broadcast(RULES)).process(Versions()).set_parallelism(1).print()
env.execute("rules")
