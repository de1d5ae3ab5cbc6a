"""A job is started in the background, with names and ids for its operators; the program waits for its end."""

from pyflink.common import Configuration, Types
from pyflink.datastream import SlotSharingGroup, StreamExecutionEnvironment


def main():
    config = Configuration()
    config.set_integer("parallelism.default", 2)
    config.set_string("pipeline.object-reuse", "true")
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_buffer_timeout(5)
    env.disable_operator_chaining()
    letters = (
        env.from_collection(["b", "a", "c", "a", "b", "a", "d"], Types.STRING())
        .name("letters")
        .uid("letters")
    )
    counts = (
        letters.map(lambda letter: (letter, 1), Types.TUPLE([Types.STRING(), Types.INT()]))
        .name("pairs")
        .set_parallelism(1)
        .slot_sharing_group(SlotSharingGroup.builder("pairs").build())
        .key_by(lambda pair: pair[0], Types.STRING())
        .sum(1)
        .name("counts")
        .uid("counts")
        .set_max_parallelism(16)
    )
    counts.print().name("printed").uid("printed").set_parallelism(1)
    client = env.execute_async("letters")
    client.get_job_execution_result().result()
    assert client.get_job_status().result().is_globally_terminal_state()


if __name__ == "__main__":
    main()
