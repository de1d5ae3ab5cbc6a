"""Tumbling windows of the Table API over a stream with event times."""

from pyflink.common import Duration, Row, WatermarkStrategy
from pyflink.common.typeinfo import Types
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import DataTypes, Schema, StreamTableEnvironment, TableDescriptor
from pyflink.table.expressions import col, lit
from pyflink.table.window import Tumble


class FirstColumn(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp) -> int:
        return int(value[0])


def tumble_window_demo():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    t_env = StreamTableEnvironment.create(stream_execution_environment=env)
    t_env.get_config().set_local_timezone("UTC")

    ds = env.from_collection(
        collection=[
            Row(1_000, "Apple", 10.0),
            Row(2_000, "Pear", 2.5),
            Row(4_000, "Apple", 1.5),
            Row(3_000, "Apple", 4.0),
            Row(11_000, "Pear", 7.25),
            Row(12_000, "Apple", 1.0),
            Row(26_000, "Pear", 3.0),
        ],
        type_info=Types.ROW([Types.LONG(), Types.STRING(), Types.DOUBLE()]),
    ).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2)).with_timestamp_assigner(
            FirstColumn()
        )
    )

    table = t_env.from_data_stream(
        ds,
        Schema.new_builder()
        .column("f0", DataTypes.BIGINT())
        .column("f1", DataTypes.STRING())
        .column("f2", DataTypes.DOUBLE())
        .column_by_expression("ts", "CAST(TO_TIMESTAMP_LTZ(f0, 3) AS TIMESTAMP(3))")
        .watermark("ts", "ts - INTERVAL '3' SECOND")
        .build(),
    ).alias("millis", "name", "price", "ts")

    t_env.create_temporary_table(
        "sink",
        TableDescriptor.for_connector("print")
        .schema(
            Schema.new_builder()
            .column("name", DataTypes.STRING())
            .column("total_price", DataTypes.DOUBLE())
            .column("w_start", DataTypes.TIMESTAMP(3))
            .column("w_end", DataTypes.TIMESTAMP(3))
            .build()
        )
        .build(),
    )

    table = (
        table.window(Tumble.over(lit(5).seconds).on(col("ts")).alias("w"))
        .group_by(col("name"), col("w"))
        .select(col("name"), col("price").sum, col("w").start, col("w").end)
    )
    table.execute_insert("sink").wait()


if __name__ == "__main__":
    tumble_window_demo()
