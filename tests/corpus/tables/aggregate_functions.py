"""Aggregate functions in Python: with retractions, and with a view of all values of a group."""

from pyflink.common import Row
from pyflink.table import (
    AggregateFunction,
    DataTypes,
    EnvironmentSettings,
    ListView,
    TableEnvironment,
)
from pyflink.table.udf import udaf


class WeightedAverage(AggregateFunction):
    def create_accumulator(self):
        return Row(0, 0)

    def get_value(self, accumulator):
        return None if accumulator[1] == 0 else accumulator[0] / accumulator[1]

    def accumulate(self, accumulator, value, weight):
        accumulator[0] += value * weight
        accumulator[1] += weight

    def retract(self, accumulator, value, weight):
        accumulator[0] -= value * weight
        accumulator[1] -= weight

    def get_result_type(self):
        return DataTypes.DOUBLE()

    def get_accumulator_type(self):
        return DataTypes.ROW(
            [DataTypes.FIELD("f0", DataTypes.BIGINT()), DataTypes.FIELD("f1", DataTypes.BIGINT())]
        )


class Joined(AggregateFunction):
    def create_accumulator(self):
        return Row(ListView())

    def get_value(self, accumulator):
        return "+".join(str(value) for value in accumulator[0])

    def accumulate(self, accumulator, value):
        accumulator[0].add(value)

    def get_result_type(self):
        return DataTypes.STRING()

    def get_accumulator_type(self):
        return DataTypes.ROW([DataTypes.FIELD("values", DataTypes.LIST_VIEW(DataTypes.BIGINT()))])


if __name__ == "__main__":
    t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    t_env.get_config().set("parallelism.default", "1")
    t_env.create_temporary_function("weighted_average", udaf(WeightedAverage()))
    joined = udaf(Joined())
    t = t_env.from_elements(
        [(1, 2, "Lee"), (3, 4, "Jay"), (5, 6, "Jay"), (7, 8, "Lee")], ["value", "count", "name"]
    )
    t_env.create_temporary_view("source", t)
    t_env.sql_query(
        "SELECT name, weighted_average(`value`, `count`) AS average FROM source GROUP BY name"
    ).execute().print()
    t.group_by(t.name).select(t.name, joined(t.value).alias("all")).execute().print()
