"""A CSV file of measurements, read with a schema and summed by station."""

import argparse

from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource
from pyflink.datastream.formats.csv import CsvReaderFormat, CsvSchema
from pyflink.table import DataTypes

parser = argparse.ArgumentParser()
parser.add_argument("--input")
path = parser.parse_args().input

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
schema = (
    CsvSchema.builder()
    .add_string_column("station")
    .add_number_column("degrees", number_type=DataTypes.DOUBLE())
    .set_column_separator(";")
    .build()
)
source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), path).build()
rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "measurements")
rows.map(
    lambda row: (row["station"], row["degrees"], 1),
    Types.TUPLE([Types.STRING(), Types.DOUBLE(), Types.INT()]),
).key_by(lambda each: each[0]).reduce(lambda a, b: (a[0], a[1] + b[1], a[2] + b[2])).map(
    lambda each: f"{each[0]} {each[1] / each[2]:.2f}", Types.STRING()
).print()
env.execute("measurements")
