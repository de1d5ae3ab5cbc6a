"""A stream of changes as a table, and the changes of a query as a stream."""

from pyflink.common import Row, RowKind, Types
from pyflink.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.table import DataTypes, Schema, StreamTableEnvironment


class CountChanges(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext):
        self.changes = runtime_context.get_state(ValueStateDescriptor("changes", Types.LONG()))

    def process_element(self, row, ctx):
        count = (self.changes.value() or 0) + 1
        self.changes.update(count)
        yield f"{ctx.get_current_key()}: change {count} is {row.get_row_kind()} {row[1]}"


def change(kind, name, score):
    row = Row(name, score)
    row.set_row_kind(kind)
    return row


def changelogs():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    t_env = StreamTableEnvironment.create(env)
    data_stream = env.from_collection(
        [
            change(RowKind.INSERT, "Alice", 12),
            change(RowKind.INSERT, "Bob", 5),
            change(RowKind.UPDATE_BEFORE, "Alice", 12),
            change(RowKind.UPDATE_AFTER, "Alice", 100),
            change(RowKind.INSERT, "Bob", 7),
            change(RowKind.DELETE, "Bob", 5),
        ],
        type_info=Types.ROW([Types.STRING(), Types.INT()]),
    )
    table = t_env.from_changelog_stream(
        data_stream,
        Schema.new_builder().column("f0", DataTypes.STRING()).column("f1", DataTypes.INT()).build(),
    )
    t_env.create_temporary_view("scores", table)
    result = t_env.sql_query("SELECT f0 AS name, SUM(f1) AS score FROM scores GROUP BY f0")
    stream = t_env.to_changelog_stream(result)
    stream.key_by(lambda row: row[0], key_type=Types.STRING()).process(
        CountChanges(), output_type=Types.STRING()
    ).print()
    env.execute("changelogs")


if __name__ == "__main__":
    changelogs()
