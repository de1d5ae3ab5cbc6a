"""Rows of the datagen table, as PyFlink's examples for streams begin."""

import argparse

from pyflink.common import Encoder, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink
from pyflink.table import DataTypes, Schema, StreamTableEnvironment, TableDescriptor

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    t_env = StreamTableEnvironment.create(stream_execution_environment=env)
    t_env.create_temporary_table(
        "numbers",
        TableDescriptor.for_connector("datagen")
        .schema(Schema.new_builder().column("id", DataTypes.BIGINT()).build())
        .option("fields.id.kind", "sequence")
        .option("fields.id.start", "1")
        .option("fields.id.end", "12")
        .build(),
    )
    rows = t_env.to_data_stream(t_env.from_path("numbers"))
    rows.map(lambda row: (row[0] % 3, row[0]), Types.TUPLE([Types.LONG(), Types.LONG()])).key_by(
        lambda pair: pair[0], Types.LONG()
    ).sum(1).map(lambda pair: f"{pair[0]} {pair[1]}", Types.STRING()).sink_to(
        FileSink.for_row_format(parser.parse_args().output, Encoder.simple_string_encoder()).build()
    )
    env.execute("generated rows")
