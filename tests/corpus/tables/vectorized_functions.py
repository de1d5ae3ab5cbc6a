"""A DataFrame becomes a table, a function over Series a column, and the result a DataFrame."""

import pandas as pd
from pyflink.table import DataTypes, EnvironmentSettings, TableEnvironment
from pyflink.table.expressions import col
from pyflink.table.udf import udf


@udf(result_type=DataTypes.DOUBLE(), func_type="pandas")
def fahrenheit(celsius: pd.Series) -> pd.Series:
    return celsius * 9 / 5 + 32


def vectorized():
    t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    t_env.get_config().set("parallelism.default", "1")
    readings = pd.DataFrame(
        {
            "sensor": ["a", "b", "a", "a", "b"],
            "celsius": [20.0, 5.5, 22.5, 18.0, 6.5],
            "second": [1, 2, 3, 12, 13],
        }
    )
    t_env.create_temporary_view("readings", t_env.from_pandas(readings))
    print(
        t_env.from_path("readings").select(col("sensor"), fahrenheit(col("celsius")).alias("f")).to_pandas()
    )


if __name__ == "__main__":
    vectorized()
