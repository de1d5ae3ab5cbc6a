"""Visits of a page are counted in a cache, which goes into the state with every fourth visit only."""

from pyflink.common import Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor

VISITS = ["/home", "/cart", "/home", "/pay", "/cart", "/home", "/home", "/cart", "/pay", "/home"]


class Visits(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.cache = {}

    def process_element(self, page, ctx):
        if page not in self.cache:
            self.cache[page] = self.count.value() or 0
        self.cache[page] += 1
        if self.cache[page] % 4 == 0:
            self.count.update(self.cache[page])
        yield page, self.cache[page]


env = StreamExecutionEnvironment.get_execution_environment()
visits = env.from_collection(VISITS, Types.STRING())
visits.key_by(lambda page: page).process(Visits()).print()
env.execute("visits")
