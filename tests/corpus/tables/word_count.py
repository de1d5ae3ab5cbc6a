"""Words of lines counted by the Table API."""

import argparse
import logging
import sys

from pyflink.common import Row
from pyflink.table import DataTypes, EnvironmentSettings, Schema, TableDescriptor, TableEnvironment
from pyflink.table.expressions import col, lit
from pyflink.table.udf import udtf

LINES = [
    "To be, or not to be, that is the question",
    "Whether 'tis nobler in the mind to suffer",
    "The slings and arrows of outrageous fortune",
    "Or to take arms against a sea of troubles",
]


def word_count(minimum):
    t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    t_env.get_config().set("parallelism.default", "1")
    tab = t_env.from_elements(
        [(line,) for line in LINES], DataTypes.ROW([DataTypes.FIELD("line", DataTypes.STRING())])
    )

    t_env.create_temporary_table(
        "sink",
        TableDescriptor.for_connector("print")
        .schema(
            Schema.new_builder()
            .column("word", DataTypes.STRING())
            .column("count", DataTypes.BIGINT())
            .build()
        )
        .build(),
    )

    @udtf(result_types=[DataTypes.STRING()])
    def split(line: Row):
        for word in line[0].lower().replace(",", "").split():
            yield Row(word)

    (
        tab.flat_map(split)
        .alias("word")
        .where(col("word").char_length >= minimum)
        .group_by(col("word"))
        .select(col("word"), lit(1).count)
        .execute_insert("sink")
        .wait()
    )


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser()
    parser.add_argument("--minimum", type=int, default=2, help="the shortest word that counts")
    word_count(parser.parse_args().minimum)
