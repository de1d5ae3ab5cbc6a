"""Two sinks in one job, by the Table API and by SQL."""

from pyflink.table import DataTypes, EnvironmentSettings, Schema, TableDescriptor, TableEnvironment
from pyflink.table.expressions import col
from pyflink.table.udf import udf


def multi_sink():
    t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    t_env.get_config().set("parallelism.default", "1")

    table = t_env.from_elements(
        elements=[(1, "Hello"), (2, "World"), (3, "Flink"), (4, "PyFlink"), (5, "world")],
        schema=["id", "data"],
    )
    t_env.create_temporary_view("words", table)

    for name in ("first", "second"):
        t_env.create_temporary_table(
            f"{name}_sink",
            TableDescriptor.for_connector("print")
            .schema(
                Schema.new_builder()
                .column("id", DataTypes.BIGINT())
                .column("data", DataTypes.STRING())
                .build()
            )
            .option("print-identifier", name)
            .build(),
        )

    @udf(result_type=DataTypes.BOOLEAN())
    def contains_flink(data):
        return "Flink" in data

    t_env.create_temporary_system_function("contains_flink", contains_flink)

    statement_set = t_env.create_statement_set()
    statement_set.add_insert("first_sink", table.where(contains_flink(table.data)))
    statement_set.add_insert_sql(
        "INSERT INTO second_sink SELECT SUM(id), UPPER(data) FROM words WHERE NOT contains_flink(data) GROUP BY UPPER(data)"  # noqa: E501
    )
    statement_set.execute().wait()
    assert table.select(col("id")).get_schema().get_field_names() == ["id"]


if __name__ == "__main__":
    multi_sink()
