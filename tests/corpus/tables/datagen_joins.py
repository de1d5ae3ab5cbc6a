"""Generated tables that are joined, as in many a first example."""

from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import EnvironmentSettings, StreamTableEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
t_env = StreamTableEnvironment.create(
    env, environment_settings=EnvironmentSettings.new_instance().in_streaming_mode().build()
)

t_env.execute_sql("""
    CREATE TABLE orders (
        order_id BIGINT,
        customer AS MOD(order_id, 3),
        price AS order_id * 10
    ) WITH (
        'connector' = 'datagen',
        'fields.order_id.kind' = 'sequence',
        'fields.order_id.start' = '1',
        'fields.order_id.end' = '9'
    )
""")
customers = t_env.from_elements([(0, "Ada"), (1, "Bob")], ["id", "name"])
t_env.create_temporary_view("customers", customers)
t_env.execute_sql("""
    CREATE TABLE bills (
        name STRING,
        orders BIGINT,
        total BIGINT
    ) WITH ('connector' = 'print')
""")
t_env.execute_sql("""
    INSERT INTO bills
    SELECT c.name, COUNT(*), SUM(o.price)
    FROM orders AS o
    JOIN customers AS c ON o.customer = c.id
    GROUP BY c.name
""").wait()
