"""Tables and streams in one job: a stream of a table, and a table of that stream."""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import DataTypes, Schema, StreamTableEnvironment, TableDescriptor
from pyflink.table.udf import udf


def mixing_use_of_datastream_and_table():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    t_env = StreamTableEnvironment.create(stream_execution_environment=env)

    ds = env.from_collection(
        [(1, "flink"), (2, "table"), (3, "api"), (4, "flink")],
        type_info=Types.ROW_NAMED(["id", "data"], [Types.LONG(), Types.STRING()]),
    )
    t_env.create_temporary_view("source", ds)
    t_env.create_temporary_table(
        "sink",
        TableDescriptor.for_connector("print")
        .schema(
            Schema.new_builder()
            .column("total", DataTypes.BIGINT())
            .column("word", DataTypes.STRING())
            .build()
        )
        .option("print-identifier", "sum")
        .build(),
    )

    @udf(result_type=DataTypes.BIGINT())
    def length(data):
        return len(data)

    table = t_env.from_path("source")
    table = table.select(table.id, length(table.data).alias("size"), table.data)

    # from the table to a stream and back
    ds = t_env.to_data_stream(table)
    ds = ds.map(
        lambda row: (row[0] + row[1], row[2]), output_type=Types.TUPLE([Types.LONG(), Types.STRING()])
    )
    keyed = ds.key_by(lambda pair: pair[1], key_type=Types.STRING()).reduce(lambda a, b: (a[0] + b[0], a[1]))
    table = t_env.from_data_stream(
        keyed,
        Schema.new_builder().column("f0", DataTypes.BIGINT()).column("f1", DataTypes.STRING()).build(),
    )
    table.execute_insert("sink").wait()


if __name__ == "__main__":
    mixing_use_of_datastream_and_table()
