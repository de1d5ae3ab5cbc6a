"""The highest and the lowest row of each city by a field, and running sums."""

from pyflink.common import Row
from pyflink.common.typeinfo import Types
from pyflink.datastream import StreamExecutionEnvironment

WEATHER = Types.ROW_NAMED(["city", "day", "degrees"], [Types.STRING(), Types.INT(), Types.INT()])
DAYS = [
    Row("Rome", 1, 20),
    Row("Oslo", 1, 5),
    Row("Rome", 2, 25),
    Row("Oslo", 2, -3),
    Row("Rome", 3, 22),
    Row("Oslo", 3, 9),
]

if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    days = env.from_collection(DAYS, type_info=WEATHER).key_by(lambda row: row["city"], Types.STRING())
    hottest = days.max_by("degrees").map(
        lambda row: f"{row.city} was hottest on day {row.day}: {row.degrees}", Types.STRING()
    )
    coldest = days.min_by("degrees").map(
        lambda row: f"{row.city} was coldest on day {row.day}: {row.degrees}", Types.STRING()
    )
    hottest.union(coldest).print()
    env.execute("weather")
