"""Orders go into a table of SQLite by their number, so that one that comes again replaces itself."""

import sqlite3

from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import SinkFunction

ORDERS = [(1, "tea", 5), (2, "jam", 3), (3, "pen", 4), (4, "ink", 1), (5, "cup", 2), (6, "hat", 7)]


class Orders(SinkFunction):
    def open(self, runtime_context):
        self.database = sqlite3.connect("orders.db")
        self.database.execute("CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY, item, price)")

    def invoke(self, order, context):
        with self.database:
            self.database.execute("INSERT OR REPLACE INTO orders VALUES (?, ?, ?)", order)

    def close(self):
        self.database.close()


env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection(ORDERS).add_sink(Orders()).name("orders")
env.execute("orders")
