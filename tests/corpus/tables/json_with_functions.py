"""Texts of JSON taken apart by functions in Python and by those of Flink, the result collected."""

import json

from pyflink.table import DataTypes, EnvironmentSettings, TableEnvironment
from pyflink.table.expressions import call, col, concat, if_then_else, lit
from pyflink.table.udf import ScalarFunction, udf

DEVICES = [
    (1, '{"name": "boiler", "tel": "123", "addr": {"country": "Germany", "city": "Berlin"}}'),
    (2, '{"name": "pump", "tel": "135", "addr": {"country": "China", "city": "Shanghai"}}'),
    (3, '{"name": "valve", "tel": "124", "addr": {"country": "Germany", "city": "Bonn"}}'),
    (4, '{"name": "meter", "addr": {"country": "China", "city": "Hangzhou"}}'),
]


class Country(ScalarFunction):
    def open(self, function_context):
        self.codes = {"Germany": "DE", "China": "CN"}

    def eval(self, text):
        country = json.loads(text)["addr"]["country"]
        return self.codes.get(country, country)


@udf(result_type=DataTypes.STRING())
def update_tel(data):
    value = json.loads(data)
    return value.get("tel", "none")


def process_json_data():
    t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    t_env.get_config().set("parallelism.default", "1")
    t_env.create_temporary_function("country_of", udf(Country(), result_type=DataTypes.STRING()))

    table = t_env.from_elements(elements=DEVICES, schema=["id", "data"])
    table = (
        table.add_columns(
            col("data").json_value("$.name", DataTypes.STRING()).alias("name"),
            update_tel(col("data")).alias("tel"),
            call("country_of", col("data")).alias("country"),
            if_then_else(col("id") > 2, lit("new"), lit("old")).alias("age"),
        )
        .drop_columns(col("data"))
        .rename_columns(col("id").alias("number"))
    )
    table.print_schema()
    totals = table.group_by(col("country")).select(
        col("country"), col("number").count.alias("devices"), col("tel").max.alias("last_tel")
    )
    totals = totals.select(concat(col("country"), ":"), col("devices"), col("last_tel"))
    with totals.execute().collect() as rows:
        for row in rows:
            print(row)


if __name__ == "__main__":
    process_json_data()
