"""Malformed readings and alarms go to side outputs."""

import argparse
import json

from pyflink.common import Encoder, Types
from pyflink.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink

LINES = [
    '{"sensor": "a", "value": 20}',
    "not json",
    '{"sensor": "b", "value": 101}',
    '{"sensor": "a"}',
    '{"sensor": "c", "value": 30}',
    '{"sensor": "a", "value": 140}',
    '{"sensor": "b", "value": 7}',
]
malformed = OutputTag("malformed", Types.STRING())
alarms = OutputTag("alarms", Types.STRING())


class Parse(ProcessFunction):
    def process_element(self, value, ctx):
        try:
            reading = json.loads(value)
            sensor, number = reading["sensor"], reading["value"]
        except (ValueError, KeyError) as error:
            yield malformed, f"malformed {type(error).__name__} {value}"
            return
        if number > 100:
            yield alarms, f"alarm {sensor} {number}"
        yield f"reading {sensor} {number}"


def files(folder):
    return FileSink.for_row_format(folder, Encoder.simple_string_encoder("UTF-8")).build()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--output")
    output = parser.parse_args().output
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    readings = env.from_collection(LINES, Types.STRING()).process(Parse(), Types.STRING())
    readings.sink_to(files(f"{output}/readings"))
    readings.get_side_output(malformed).sink_to(files(f"{output}/malformed"))
    readings.get_side_output(alarms).sink_to(files(f"{output}/alarms"))
    env.execute("side outputs")
