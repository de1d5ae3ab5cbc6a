"""The pages that each user has visited, by a MapState with all of its methods."""

from pyflink.common import Row, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import MapStateDescriptor

VISIT = Types.ROW_NAMED(["user", "page"], [Types.STRING(), Types.STRING()])


class Profile(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.pages = runtime_context.get_map_state(MapStateDescriptor("pages", Types.STRING(), Types.LONG()))

    def process_element(self, value, ctx):
        if value.page == "logout":
            visits = sorted(self.pages.items())
            yield f"{value.user} saw {', '.join(f'{page} x{times}' for page, times in visits)}"
            self.pages.clear()
        elif self.pages.contains(value.page):
            self.pages.put(value.page, self.pages.get(value.page) + 1)
        else:
            self.pages.put(value.page, 1)


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    visits = [
        *[
            Row("ann", "home"),
            Row("bob", "home"),
            Row("ann", "home"),
            Row("ann", "cart"),
            Row("ann", "logout"),
        ],
        *[Row("bob", "help"), Row("ann", "home"), Row("bob", "logout"), Row("ann", "logout")],
    ]
    env.from_collection(visits, type_info=VISIT).key_by(lambda visit: visit.user).process(
        Profile(), Types.STRING()
    ).print()
    env.execute("profiles")
